// Adds the gradient of every trainable parameter to @micro, by one reverse sweep over the rows'
// gradient functions:
//
//   %y = einsum %x, %w "mk,kn->mn"      =>   ... %d = einsum %x, %dy "mk,mn->kn" ... return %d
//   updates %w.grad
//
// With several micro-batches gradients are added to %w.grad, which @prepare clears. Nothing here
// speaks of grids: which gradients to sum over which axes follows from types later.
#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "ir/base/diag.h"
#include "ir/base/text.h"
#include "ir/builder.h"
#include "ir/op_def.h"
#include "passes/pass.h"

namespace tessera {
namespace {

class Differentiator {
 public:
  Differentiator(Module& module, Func& func, PassContext& context)
      : module_(module), func_(func), context_(context), builder_(module, func) {}

  void run() {
    mark_active();
    const auto loss = std::ranges::find_if(
        func_.results, [&](const FuncResult& r) { return r.name == module_.notes["loss"]; });
    TESSERA_CHECK(loss != func_.results.end(), "no loss to differentiate");
    std::vector<Op*> order;
    for (const auto& op : func_.ops()) order.push_back(op.get());
    grads_[loss->value] = builder_.fill_like(1.0, loss->value);
    for (std::size_t i = order.size(); i-- > 0;) sweep(*order[i]);
    for (Value* param : params_) finish(param);
    TESSERA_CHECK(!grads_.empty(), "nothing was differentiated");
  }

 private:
  // Values that depend on a trainable parameter.
  void mark_active() {
    for (const Arg& arg : func_.args()) {
      if (arg.kind != ArgKind::Param || !module_.weights.at(arg.value->name).trainable) continue;
      params_.push_back(arg.value.get());
      active_.insert(arg.value.get());
    }
    for (const auto& op : func_.ops()) {
      const bool depends =
          std::ranges::any_of(op->operands, [&](const Value* v) { return active_.contains(v); });
      if (!depends) continue;
      for (const auto& result : op->results) {
        if (is_float(result->type.dtype)) active_.insert(result.get());
      }
    }
    if (params_.empty())
      throw CompileError("", "the model has no trainable parameter",
                         {"set some with --trainable REGEX"});
  }

  void sweep(Op& op) {
    std::vector<Value*> result_grads;
    bool any = false;
    for (const auto& result : op.results) {
      const auto found = grads_.find(result.get());
      result_grads.push_back(found == grads_.end() ? nullptr : found->second);
      any = any || result_grads.back() != nullptr;
    }
    const bool reaches =
        std::ranges::any_of(op.operands, [&](const Value* v) { return active_.contains(v); });
    if (!any || !reaches) return;
    const OpDef& def = op_def(op.kind);
    if (def.grad == nullptr) {
      throw CompileError(
          op.origin.empty() ? "" : str("node '", op.origin, "'"),
          str(mnemonic(op.kind),
              ": has no gradient, but a trainable parameter reaches the loss through it"),
          {"freeze what lies before it with --freeze REGEX"});
    }
    builder_.set_origin(op.origin);
    const std::vector<Value*> operand_grads = def.grad(builder_, op, result_grads);
    for (std::size_t i = 0; i < op.operands.size(); ++i) {
      if (operand_grads[i] == nullptr || !active_.contains(op.operand(i))) continue;
      Value*& total = grads_[op.operand(i)];
      total = total == nullptr ? operand_grads[i] : builder_.add(total, operand_grads[i]);
    }
  }

  void finish(Value* param) {
    const auto found = grads_.find(param);
    if (found == grads_.end()) {
      context_.remark(str("parameter %", param->name, " does not reach the loss, frozen"));
      module_.weights.at(param->name).trainable = false;
      return;
    }
    builder_.set_origin("");
    const std::string name = param->name + ".grad";
    Value* state = func_.add_arg(name, param->type, ArgKind::State);
    TESSERA_CHECK(state->name == name, "a value is called %", name, " already");
    Value* total = found->second;
    if (module_.micro_batches > 1) {
      // At once: what a rank has made of the gradient is larger than what it keeps.
      if (total->def != nullptr) builder_.set_insertion_point(std::next(total->def->place));
      total = builder_.add(state, total);
      builder_.set_insertion_point(func_.ops().end());
      Func& prepare = *module_.find("prepare");
      prepare.add_arg(name, param->type, ArgKind::State);
      Builder clear(module_, prepare);
      prepare.results.push_back({clear.fill_like(0.0, param), name, true});
    }
    func_.results.push_back({total, name, true});
  }

  Module& module_;
  Func& func_;
  PassContext& context_;
  Builder builder_;
  std::vector<Value*> params_;
  std::unordered_set<const Value*> active_;
  std::unordered_map<const Value*, Value*> grads_;
};

}  // namespace

bool differentiate(Module& module, PassContext& context) {
  Func* micro = module.find("micro");
  if (micro == nullptr || !module.notes.contains("loss")) {
    throw CompileError("--differentiate", "needs a module with @micro and a loss",
                       {"run --append-loss first"});
  }
  Differentiator(module, *micro, context).run();
  return true;
}

}  // namespace tessera
