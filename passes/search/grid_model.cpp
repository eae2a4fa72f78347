#include "passes/search/grid_model.h"

#include <algorithm>
#include <set>

#include "ir/base/text.h"
#include "passes/cost/collective_cost.h"
#include "passes/cost/op_cost.h"
#include "passes/search/grid_model_data.h"
#include "passes/sharded/loop_assignment.h"
#include "passes/sharded/reshard_path.h"

namespace tessera {
namespace {

// One grid under evaluation.
class Pricing {
 public:
  Pricing(const GridModelData& data, const Grid& grid) : data_(data), grid_(grid) {
    for (AxisId axis = 0; axis < grid.axis_count(); ++axis) {
      if (grid.size(axis) == 1) continue;
      const std::string& name = grid.name(axis);
      (name == "x" ? x_ : name == "y" ? y_ : batch_).push_back(axis);
    }
    for (const ValueKind& kind : data.kinds) homes_.push_back(home(kind));
  }

  GridEstimate run() {
    for (const DistinctOp& op : data_.ops) price(op);
    estimate_.seconds = estimate_.compute + estimate_.communication;
    for (const auto& [kind, count] : data_.states) estimate_.memory += count * bytes(at(kind));
    estimate_.memory +=
        peak() + data_.machine.device.runtime_bytes +
        data_.machine.device.communicator_bytes * static_cast<double>(communicators_.size());
    return estimate_;
  }

 private:
  const Type& at(int kind) const { return homes_[static_cast<std::size_t>(kind)]; }
  // A parameter is gathered over z for as long as it is read.
  Type in_use(int kind) const {
    Type type = at(kind);
    const AxisId z = grid_.find("z");
    if (!data_.kinds[static_cast<std::size_t>(kind)].stored || z < 0) return type;
    for (Axes& axes : type.cuts) std::erase(axes, z);
    return type;
  }
  double bytes(const Type& type) const {
    return static_cast<double>(largest_local_bytes(type, grid_));
  }

  // Axes are whole here: of grouped heads, the larger share takes a colour's axis.
  Axes axes_of(const Role& role) const {
    const Axes& own = role.color == Color::X ? x_ : y_;
    switch (role.kind) {
      case Role::None:
        return {};
      case Role::Batch:
        return batch_;
      case Role::X:
        return x_;
      case Role::Y:
        return y_;
      case Role::Vocabulary:
        return concatenated(y_, x_);
      case Role::Groups:
      case Role::Queries: {
        const int parts = grid_.size(own);
        const bool groups = 2 * group_parts(role.groups, role.queries, parts) > parts;
        return groups == (role.kind == Role::Groups) ? own : Axes{};
      }
    }
    return {};
  }

  Type home(const ValueKind& kind) const {
    Type type = kind.type;
    std::vector<std::size_t> order(type.rank());
    for (std::size_t d = 0; d < order.size(); ++d) order[d] = d;
    std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) {
      return axes_of(kind.roles[a]).size() > axes_of(kind.roles[b]).size();
    });
    Axes used;
    for (const std::size_t d : order) {
      for (const AxisId axis : axes_of(kind.roles[d])) {
        if (contains(used, axis) || (kind.stored && kind.roles[d].kind == Role::Batch)) break;
        type.cuts[d].push_back(axis);
        used.push_back(axis);
      }
    }
    if (kind.stored) cut_over_z(type, grid_);
    const AxisId data = grid_.find("data");
    if (kind.accumulated && data >= 0 && grid_.size(data) > 1) type.partial.axes = {data};
    return type;
  }

  void price(const DistinctOp& op) {
    if (op.follows) return price_follower(op);
    LoopAxes wanted;
    for (const auto& [loop, role] : op.loops) wanted[loop] = axes_of(role);
    const LoopAxes loops = resolve_loops(op.map, wanted);
    std::vector<Type> operands, results;
    for (std::size_t i = 0; i < op.operands.size(); ++i) {
      if (op.operands[i] < 0) continue;
      Type need = at(op.operands[i]).logical();
      need.cuts = cuts_of(op.map.operands[i], loops);
      if (op.fresh[i] != 0) reshard(at(op.operands[i]), need, op.count);
      operands.push_back(std::move(need));
    }
    for (std::size_t i = 0; i < op.results.size(); ++i) {
      Type made = at(op.results[i]).logical();
      made.cuts = cuts_of(op.map.results[i], loops);
      for (const auto& [loop, axes] : loops) {
        if (op.map.results[i].find(loop) == std::string::npos)
          made.partial.axes = concatenated(made.partial.axes, axes);
      }
      std::ranges::sort(made.partial.axes);
      const bool norm = family(op.kind) == OpFamily::Normalization;
      if (norm && std::ranges::any_of(
                      loops, [&](const auto& item) { return op.map.is_expandable(item.first); }))
        statistics(op, made, loops);
      if (norm && op.kind != OpKind::AttentionGrad) made.partial = {};
      reshard(made, at(op.results[i]), op.count);
      results.push_back(std::move(made));
    }
    compute(op, operands, results);
  }

  // Row ops over a cut dimension all-reduce a few numbers a row.
  void statistics(const DistinctOp& op, const Type& made, const LoopAxes& loops) {
    Type rows = made;
    Axes over;
    for (const auto& [loop, axes] : loops) {
      if (op.map.is_expandable(loop)) over = concatenated(over, axes);
    }
    if (made.rank() > 0 && made.cuts.back() == over) {
      rows.shape.pop_back();
      rows.cuts.pop_back();
    }
    rows.partial = {};
    constexpr double kReductions = 1;  // a result each: y, mean and rstd make the two of a norm
    collective(OpKind::AllReduce, over, bytes(rows), kReductions * op.count);
  }

  void price_follower(const DistinctOp& op) {
    const bool keeps_partial = data_.kinds[static_cast<std::size_t>(op.results[0])].accumulated;
    std::vector<Type> operands, results;
    for (std::size_t i = 0; i < op.operands.size(); ++i) {
      if (op.operands[i] < 0) continue;
      Type reduced = at(op.operands[i]);
      if (!keeps_partial) reduced.partial = {};
      if (op.fresh[i] != 0) reshard(at(op.operands[i]), reduced, op.count);
      operands.push_back(std::move(reduced));
    }
    for (const int kind : op.results) results.push_back(at(kind));
    compute(op, operands, results);
  }

  // A chain of elementwise ops is one loop: it pays for what it leaves behind.
  void compute(const DistinctOp& op, const std::vector<Type>& operands,
               const std::vector<Type>& results) {
    std::vector<const Type*> in, out;
    for (const Type& type : operands) in.push_back(&type);
    for (const Type& type : results) out.push_back(&type);
    double seconds = 0;
    if (family(op.kind) == OpFamily::Elementwise) {
      for (const Type& type : results)
        seconds += bytes(type) / data_.machine.device.memory_bandwidth;
    } else {
      seconds = op_seconds(data_.machine, grid_, {op.kind, &op.attrs, in, out});
    }
    estimate_.compute += op.count * seconds;
  }

  void reshard(const Type& from, const Type& to, double count) {
    if (from == to) return;
    Type at = from;
    for (const ReshardMove& move : cheapest_reshard(from, to, grid_).moves) {
      if (communicates(move.kind))
        collective(move.kind, move.over, bytes(move.kind == OpKind::AllGather ? move.result : at),
                   count);
      at = move.result;
    }
  }

  void collective(OpKind kind, const Axes& over, double size, double count) {
    if (over.empty()) return;
    communicators_.insert(over);
    const double seconds = count * collective_cost(data_.machine, grid_, kind, over, size).seconds;
    estimate_.communication += seconds;
    estimate_.collectives[str(mnemonic(kind), " over ", grid_.text(over))] += seconds;
  }

  // The most that values of @micro hold at once, as they lie at home.
  double peak() const {
    std::vector<double> change(static_cast<std::size_t>(data_.length) + 2, 0.0);
    for (const Life& life : data_.lives) {
      const double held = bytes(in_use(life.kind));
      change[static_cast<std::size_t>(life.from)] += held;
      change[static_cast<std::size_t>(life.to) + 1] -= held;
    }
    double now = 0, most = 0;
    for (const double step : change) {
      now += step;
      most = std::max(most, now);
    }
    return most;
  }

  const GridModelData& data_;
  const Grid& grid_;
  Axes batch_, y_, x_;
  std::vector<Type> homes_;
  std::set<Axes> communicators_;
  GridEstimate estimate_;
};

}  // namespace

GridModel::GridModel(const Module& module, const Machine& machine)
    : data_(std::make_unique<GridModelData>()) {
  const Layout layout(module);
  data_->machine = machine;
  data_->micro_batches = module.micro_batches;
  data_->batch = layout.batch_size;
  scan_module(module, layout, *data_);
}

GridModel::~GridModel() = default;

GridEstimate GridModel::estimate(const Grid& grid) const { return Pricing(*data_, grid).run(); }
std::size_t GridModel::distinct_ops() const { return data_->ops.size(); }
std::int64_t GridModel::batch() const { return data_->batch; }

}  // namespace tessera
