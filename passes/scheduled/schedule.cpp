#include "passes/scheduled/schedule.h"

#include <algorithm>
#include <set>
#include <unordered_map>

#include "ir/step_groups.h"
#include "passes/cost/collective_cost.h"
#include "passes/cost/op_cost.h"

namespace tessera {
namespace {

std::vector<const Type*> types_of(const std::vector<const Value*>& values) {
  std::vector<const Type*> types;
  for (const Value* value : values) types.push_back(&value->type);
  return types;
}

class Builder {
 public:
  Builder(const Func& func, const Grid& grid, const Machine& machine)
      : func_(func), grid_(grid), machine_(machine) {
    for (const FuncResult& result : func.results) {
      if (result.updates) updates_.insert(result.value);
    }
  }

  Units run() {
    for (StepGroup& group : group_steps(func_)) add(group);
    for (std::size_t i = 0; i < units_.size(); ++i) {
      for (const int need : units_[i].needs) units_[at(need)].users.push_back(static_cast<int>(i));
    }
    find_sinks();
    for (Unit& unit : units_) {
      if (unit.collective != nullptr) unit.kind = kind_of(unit);
    }
    return std::move(units_);
  }

 private:
  void add(StepGroup& group) {
    const int self = static_cast<int>(units_.size());
    Unit unit;
    const Op& op = *group.ops[0];
    std::vector<const Value*> in(group.inputs), out(group.outputs);
    if (!group.fused) {
      in.assign(op.operands.begin(), op.operands.end());
      for (const auto& result : op.results) out.push_back(result.get());
    }
    price(group, in, out, unit);
    std::set<int> needs;
    for (const Value* value : in) {
      if (value->def != nullptr) needs.insert(unit_of_.at(value));
    }
    unit.needs.assign(needs.begin(), needs.end());
    for (const int need : unit.needs) unit.sub_batches |= units_[at(need)].sub_batches;
    for (const Op* part : group.ops) {
      if (part->attrs.has(kSubBatch))
        unit.sub_batches |= std::uint64_t{1} << part->attrs.integer(kSubBatch);
    }
    place_results(op, group.fused, in, out, self, unit);
    unit.ops = std::move(group.ops);
    units_.push_back(std::move(unit));
  }

  void price(const StepGroup& group, const std::vector<const Value*>& in,
             const std::vector<const Value*>& out, Unit& unit) {
    const std::vector<const Type*> operands = types_of(in), results = types_of(out);
    if (group.fused) {
      unit.seconds = fused_seconds(machine_, grid_, operands, results);
      return;
    }
    const Op& op = *group.ops[0];
    const OpView view{op.kind, &op.attrs, operands, results};
    if (!communicates(op.kind)) {
      unit.seconds = seconds_of(machine_, work_of(view, grid_));
      return;
    }
    const CollectiveCost cost = collective_cost(machine_, grid_, op.kind, op.attrs.axes("over"),
                                                collective_bytes(view, grid_));
    unit.collective = &op;
    unit.seconds = cost.seconds;
    unit.link = std::max(cost.link, 0);
  }

  // As codegen does: reshapes share their operand's buffer, updates are written over the argument.
  void place_results(const Op& op, bool fused, const std::vector<const Value*>& in,
                     const std::vector<const Value*>& out, int self, Unit& unit) {
    unit.storage = self;
    const bool shares = !fused && op.kind == OpKind::Reshape && in[0]->def != nullptr;
    if (shares) unit.storage = units_[at(unit_of_.at(in[0]))].storage;
    for (const Value* value : out) {
      unit_of_[value] = self;
      if (!shares && !updates_.contains(value))
        unit.bytes += static_cast<double>(largest_local_bytes(value->type, grid_));
    }
  }

  // Gradients: what only sums, collectives and returns come after.
  void find_sinks() {
    for (std::size_t i = units_.size(); i-- > 0;) {
      Unit& unit = units_[i];
      const bool passes = std::ranges::all_of(unit.ops, [](const Op* op) {
        return op->kind == OpKind::Add || family(op->kind) == OpFamily::Collective ||
               op->kind == OpKind::Reshape;
      });
      unit.sink = passes &&
                  std::ranges::all_of(unit.users, [&](int user) { return units_[at(user)].sink; });
    }
  }

  static OverlapKind kind_of(const Unit& unit) {
    const OpKind kind = unit.collective->kind;
    if (kind == OpKind::AllGather && unit.collective->operand(0)->def == nullptr)
      return OverlapKind::Gather;
    if (unit.sink) return kind == OpKind::ReduceScatter ? OverlapKind::Scatter : OverlapKind::Other;
    return kind == OpKind::AllReduce ? OverlapKind::Reduce : OverlapKind::Other;
  }

  const Func& func_;
  const Grid& grid_;
  const Machine& machine_;
  Units units_;
  std::set<const Value*> updates_;  // results that replace an argument
  std::unordered_map<const Value*, int> unit_of_;
};

}  // namespace

Units permuted(const Units& units, const std::vector<int>& order) {
  std::vector<int> place(order.size());
  for (std::size_t p = 0; p < order.size(); ++p) place[at(order[p])] = static_cast<int>(p);
  Units result;
  result.reserve(units.size());
  for (const int unit : order) {
    Unit moved = units[at(unit)];
    for (int& need : moved.needs) need = place[at(need)];
    for (int& user : moved.users) user = place[at(user)];
    std::ranges::sort(moved.needs);
    std::ranges::sort(moved.users);
    moved.storage = place[at(moved.storage)];
    result.push_back(std::move(moved));
  }
  return result;
}

Units units_of(const Func& func, const Grid& grid, const Machine& machine) {
  return Builder(func, grid, machine).run();
}

}  // namespace tessera
