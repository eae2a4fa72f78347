#include "ir/step_groups.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

namespace tessera {
namespace {

constexpr std::size_t kLargestGroup = 48;

// Costs nothing to repeat inside a chain: it is never worth a buffer of its own there.
bool is_cheap_source(const Op& op) {
  return op.kind == OpKind::Fill || op.kind == OpKind::Iota || op.kind == OpKind::Broadcast;
}

// Made again late, to be short-lived: it must not join what is done early.
bool is_again(const Op& op) { return op.attrs.flag(kRecomputed); }

bool is_chain_op(const Op& op) { return family(op.kind) == OpFamily::Elementwise; }

class Grouper {
 public:
  explicit Grouper(const Func& func) : func_(func) {
    int index = 0;
    for (const auto& op : func.ops()) order_[op.get()] = index++;
  }

  std::vector<StepGroup> run() {
    for (const auto& op : func_.ops()) {
      if (is_cheap_source(*op)) {
        if (needs_buffer(*op)) alone(*op);
      } else if (is_chain_op(*op)) {
        join_or_start(*op);
      } else {
        alone(*op);
      }
    }
    for (StepGroup& group : groups_) finish(group);
    return std::move(groups_);
  }

 private:
  // Read by something that is no chain, or as the operand of another broadcast.
  bool needs_buffer(const Op& source) const {
    return func_.is_result(source.result()) ||
           std::ranges::any_of(source.result()->users,
                               [](const Op* user) { return !is_chain_op(*user); });
  }

  void alone(const Op& op) {
    StepGroup group;
    group.ops = {&op};
    group_of_[&op] = groups_.size();
    start_[groups_.size()] = order_.at(&op);
    groups_.push_back(std::move(group));
  }

  static bool same_geometry(const Op& a, const Op& b) {
    return a.result()->type.shape == b.result()->type.shape &&
           a.result()->type.cuts == b.result()->type.cuts;
  }

  // Whether `value` is there before the step at list position `start`.
  bool available(const Value* value, int start) const {
    if (value->def == nullptr) return true;
    if (is_cheap_source(*value->def) && !needs_buffer(*value->def)) {
      return value->def->operands.empty() || available(value->def->operand(0), start);
    }
    const auto found = group_of_.find(value->def);
    return found != group_of_.end() && start_.at(found->second) < start;
  }

  void join_or_start(const Op& op) {
    std::size_t best = groups_.size();
    for (const Value* operand : op.operands) {
      if (operand->def == nullptr || !is_chain_op(*operand->def)) continue;
      const std::size_t candidate = group_of_.at(operand->def);
      const StepGroup& group = groups_[candidate];
      if (!group.fused || group.ops.size() >= kLargestGroup ||
          !same_geometry(*group.ops.back(), op) || is_again(op) != is_again(*group.ops.back()))
        continue;
      const bool fits = std::ranges::all_of(op.operands, [&](const Value* value) {
        const auto own = value->def == nullptr ? group_of_.end() : group_of_.find(value->def);
        return (own != group_of_.end() && own->second == candidate) ||
               available(value, start_.at(candidate));
      });
      if (fits && (best == groups_.size() || candidate > best)) best = candidate;
    }
    if (best == groups_.size()) {
      start_[best] = order_.at(&op);
      groups_.emplace_back();
      groups_.back().fused = true;
    }
    groups_[best].ops.push_back(&op);
    group_of_[&op] = best;
  }

  // Adds the sources that the chain reads, then lists what comes in and goes out.
  void finish(StepGroup& group) {
    if (!group.fused) return;
    std::vector<const Op*> body;
    std::unordered_set<const Op*> inside;
    for (const Op* op : group.ops) {
      for (const Value* operand : op->operands) {
        if (operand->def != nullptr && is_cheap_source(*operand->def) &&
            inside.insert(operand->def).second)
          body.push_back(operand->def);
      }
      inside.insert(op);
      body.push_back(op);
    }
    group.ops = std::move(body);
    std::unordered_set<const Value*> seen;
    for (const Op* op : group.ops) {
      for (const Value* operand : op->operands) {
        if ((operand->def == nullptr || !inside.contains(operand->def)) &&
            seen.insert(operand).second)
          group.inputs.push_back(operand);
      }
    }
    for (const Op* op : group.ops) {
      if (is_cheap_source(*op)) continue;
      const bool leaves = func_.is_result(op->result()) ||
                          std::ranges::any_of(op->result()->users, [&](const Op* user) {
                            return !inside.contains(user);
                          });
      if (leaves) group.outputs.push_back(op->result());
    }
  }

  const Func& func_;
  std::unordered_map<const Op*, int> order_;
  std::unordered_map<const Op*, std::size_t> group_of_;
  std::unordered_map<std::size_t, int> start_;
  std::vector<StepGroup> groups_;
};

}  // namespace

std::vector<StepGroup> group_steps(const Func& func) { return Grouper(func).run(); }

}  // namespace tessera
