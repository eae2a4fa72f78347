// Trades compute for memory: values of the forward pass that the backward pass reads are dropped
// and made again just before they are needed, instead of living through the whole step.
//
//   %h = gelu %x                                    %h = gelu %x
//   ... the rest of forward and backward ...   =>   ...
//   %dw = einsum %h, %dy "bsk,bsn->kn"              %h.again = gelu %x recomputed true
//                                                   %dw = einsum %h.again, %dy "bsk,bsn->kn"
//
// What is kept: parameters, inputs, what does not depend on parameters (masks, rotary tables), and
//   selective   results of contractions, attention and lookups, and the residual stream
//   block       the residual stream between blocks; blocks are the graph's own period
// What follows the last boundary (final norm, head, loss) is kept: its backward pass begins at
// once. Only what the backward pass really reads is made again, so that the last contraction of a
// block, whose result goes nowhere but into the residual stream, never is.
#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "ir/base/diag.h"
#include "ir/base/text.h"
#include "ir/op_def.h"
#include "passes/pass.h"

namespace tessera {
namespace {

// Values that live through this share of the forward pass (an encoder's output) are no obstacle to
// a boundary, and kept.
constexpr double kLongLived = 0.4;

bool is_heavy(OpKind kind) {
  return family(kind) == OpFamily::Contraction || kind == OpKind::Attention ||
         kind == OpKind::Gather;
}

class Recomputer {
 public:
  Recomputer(Func& func, const Value* loss, Recompute mode) : func_(func), mode_(mode) {
    for (const auto& op : func.ops()) {
      forward_.push_back(op.get());
      position_[op.get()] = static_cast<int>(forward_.size()) - 1;
      if (op.get() == loss->def) break;
    }
    mark_active();
    find_boundaries();
  }

  // How many ops are made again.
  std::size_t run() {
    std::vector<Op*> backward;
    for (auto it = std::next(loss_place()); it != func_.ops().end(); ++it)
      backward.push_back(it->get());
    for (Op* op : backward) {
      for (std::size_t i = 0; i < op->operands.size(); ++i) {
        if (!is_kept(op->operand(i))) func_.set_operand(op, i, again(op->operand(i), *op));
      }
    }
    func_.erase_unused_ops();
    return clones_.size();
  }

  std::size_t boundaries() const { return boundaries_.size(); }

 private:
  Func::OpList::iterator loss_place() const { return forward_.back()->place; }

  bool is_forward(const Value* value) const {
    return value->def != nullptr && position_.contains(value->def);
  }

  // Values that depend on a parameter or on a float input.
  void mark_active() {
    for (const Arg& arg : func_.args()) {
      const bool numbers = arg.kind == ArgKind::Input && is_float(arg.value->type.dtype);
      if (arg.kind == ArgKind::Param || numbers) active_.insert(arg.value.get());
    }
    for (const Op* op : forward_) {
      if (std::ranges::none_of(op->operands, [&](const Value* v) { return active_.contains(v); }))
        continue;
      for (const auto& result : op->results) active_.insert(result.get());
    }
  }

  // Last forward op that reads the value; -1 if none does.
  int last_use(const Value* value) const {
    int last = -1;
    for (const Op* user : value->users) {
      const auto found = position_.find(user);
      if (found != position_.end()) last = std::max(last, found->second);
    }
    return last;
  }

  // Places where a single activation goes on, after at least one contraction; of these, every
  // period-th in block mode.
  void find_boundaries() {
    std::vector<const Value*> single;
    std::unordered_map<const Value*, int> live;  // -> last use
    bool worked = false;
    const double longest = kLongLived * static_cast<double>(forward_.size());
    for (const Arg& arg : func_.args()) {
      const int last = last_use(arg.value.get());
      if (arg.kind == ArgKind::Input && active_.contains(arg.value.get()) && last < longest)
        live[arg.value.get()] = last;
    }
    for (int i = 0; i < static_cast<int>(forward_.size()); ++i) {
      const Op& op = *forward_[static_cast<std::size_t>(i)];
      worked = worked || is_heavy(op.kind);
      std::erase_if(live, [&](const auto& item) { return item.second <= i; });
      for (const auto& result : op.results) {
        const int last = last_use(result.get());
        if (active_.contains(result.get()) && last > i && last - i < longest)
          live[result.get()] = last;
      }
      if (live.size() == 1 && worked && live.begin()->first->def != nullptr) {
        single.push_back(live.begin()->first);
        worked = false;
      }
    }
    drop_trailing(single);
    const std::size_t period = mode_ == Recompute::Block ? period_of(single) : 1;
    for (std::size_t i = 0; i < single.size(); ++i) {
      if ((single.size() - 1 - i) % period == 0) boundaries_.insert(single[i]);
    }
    last_boundary_ = single.empty() ? -1 : position_.at(single.back()->def);
  }

  // With no contraction after it, nothing is gained (logits).
  void drop_trailing(std::vector<const Value*>& places) const {
    const auto last = std::ranges::find_if(forward_.rbegin(), forward_.rend(),
                                           [](const Op* op) { return is_heavy(op->kind); });
    while (!places.empty() && last != forward_.rend() &&
           position_.at(places.back()->def) >= position_.at(*last))
      places.pop_back();
  }

  // After how many places the ops between them repeat.
  std::size_t period_of(const std::vector<const Value*>& places) const {
    std::vector<std::string> between;
    for (std::size_t i = 1; i < places.size(); ++i) {
      std::string ops;
      for (int at = position_.at(places[i - 1]->def); at < position_.at(places[i]->def); ++at)
        ops += str(static_cast<int>(forward_[static_cast<std::size_t>(at) + 1]->kind), ' ');
      between.push_back(std::move(ops));
    }
    constexpr std::size_t kLongest = 8;
    for (std::size_t period = 1; period <= kLongest && 2 * period <= between.size(); ++period) {
      std::size_t same = 0;
      for (std::size_t i = period; i < between.size(); ++i)
        same += between[i] == between[i - period] ? 1 : 0;
      if (4 * same >= 3 * (between.size() - period)) return period;
    }
    return 1;
  }

  bool is_kept(const Value* value) const {
    if (!is_forward(value) || !active_.contains(value) || boundaries_.contains(value)) return true;
    if (position_.at(value->def) > last_boundary_) return true;
    const int last = last_use(value);
    if (last - position_.at(value->def) >= kLongLived * static_cast<double>(forward_.size()))
      return true;
    return mode_ == Recompute::Selective && is_heavy(value->def->kind);
  }

  Value* again(Value* value, const Op& before) {
    Op*& clone = clones_[value->def];
    if (clone == nullptr) {
      const Op& op = *value->def;
      std::vector<Value*> operands;
      for (Value* operand : op.operands)
        operands.push_back(is_kept(operand) ? operand : again(operand, before));
      AttrList attrs = op.attrs;
      attrs.set(kRecomputed, true);
      std::vector<Type> types;
      for (const auto& result : op.results) types.push_back(result->type);
      Op* made = func_.insert(before.place, op.kind, std::move(operands), std::move(attrs),
                              std::move(types), str(op.result()->name, ".again"));
      made->origin = op.origin;
      clones_[&op] = made;
      return made->result(static_cast<std::size_t>(value->index));
    }
    return clone->result(static_cast<std::size_t>(value->index));
  }

  Func& func_;
  Recompute mode_;
  std::vector<Op*> forward_;
  std::unordered_map<const Op*, int> position_;
  std::unordered_set<const Value*> active_, boundaries_;
  std::unordered_map<const Op*, Op*> clones_;
  int last_boundary_ = -1;
};

}  // namespace

bool recompute_activations(Module& module, PassContext& context) {
  Func* micro = module.find("micro");
  if (micro == nullptr || context.options.recompute == Recompute::None) return false;
  const auto loss = std::ranges::find_if(
      micro->results, [&](const FuncResult& r) { return r.name == module.notes["loss"]; });
  TESSERA_CHECK(loss != micro->results.end() && loss->value->def != nullptr, "no loss");
  Recomputer pass(*micro, loss->value, context.options.recompute);
  const std::size_t ops = pass.run();
  context.remark(str("recompute: ", ops, " ops are made again in the backward pass, ",
                     pass.boundaries(), " boundaries are kept"));
  return ops > 0;
}

}  // namespace tessera
