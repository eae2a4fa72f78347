// Adds @update: the gradient norm over all trainable parameters, clipping by it, and the optimizer.
//
//   func @update(%w param, %w.grad state, %w.m state, %w.v state, %lr: f32[] input, %step: i64[]
//   input) {
//     ... %norm = sqrt (sum of squares) ... %w.new, %m, %v = adam %w, %g, %w.m, %w.v, %lr, %step
//     ... return %w.new updates %w, %m updates %w.m, %v updates %w.v, %norm as "grad_norm", %loss
//     as "loss"
//   }
//
// Learning rate and step are inputs, so schedules need no recompile.
#include "ir/base/diag.h"
#include "ir/base/text.h"
#include "ir/builder.h"
#include "passes/pass.h"

namespace tessera {
namespace {

constexpr double kClipEpsilon = 1e-6;  // as torch.nn.utils.clip_grad_norm_

class Optimizer {
 public:
  Optimizer(Module& module, const PassOptions& options)
      : module_(module),
        options_(options),
        update_(*module.add_func("update")),
        b_(module, update_) {}

  void run() {
    const Func& micro = *module_.find("micro");
    for (const Arg& arg : micro.args()) {
      const std::string grad = arg.value->name + ".grad";
      if (arg.kind != ArgKind::Param || micro.find_arg(grad) == nullptr) continue;
      params_.push_back(update_.add_arg(arg.value->name, arg.value->type, ArgKind::Param));
      grads_.push_back(update_.add_arg(grad, arg.value->type, ArgKind::State));
    }
    const DType dtype = params_.front()->type.dtype;
    lr_ = update_.add_arg("lr", Type(dtype, {}), ArgKind::Input);
    step_ = update_.add_arg("step", Type(DType::I64, {}), ArgKind::Input);
    Value* norm = gradient_norm();
    if (options_.clip_norm > 0) clip(norm);
    for (std::size_t i = 0; i < params_.size(); ++i) update(i);
    const Value* loss = micro.find_arg(module_.notes["loss"]);
    Value* state = update_.add_arg(loss->name, loss->type, ArgKind::State);
    update_.results.push_back({state, "loss", false});
    update_.results.push_back({norm, "grad_norm", false});
  }

 private:
  Value* gradient_norm() {
    Value* total = nullptr;
    for (Value* grad : grads_) {
      b_.set_name(grad->name + ".sq");
      Ints dims;
      for (std::int64_t d = 0; d < static_cast<std::int64_t>(grad->type.rank()); ++d)
        dims.push_back(d);
      Value* squares =
          b_.cast(b_.reduce_sum(b_.mul(grad, grad), dims), params_.front()->type.dtype);
      total = total == nullptr ? squares : b_.add(total, squares);
    }
    b_.set_name("grad_norm");
    return b_.emit(OpKind::Sqrt, {total});
  }

  void clip(Value* norm) {
    b_.set_name("clip");
    Value* factor = b_.div(b_.fill_like(options_.clip_norm, norm),
                           b_.add(norm, b_.fill_like(kClipEpsilon, norm)));
    factor = b_.emit(OpKind::Min, {factor, b_.fill_like(1.0, factor)});
    for (Value*& grad : grads_) {
      b_.set_name(grad->name + ".clipped");
      grad = b_.mul(grad, b_.broadcast(b_.cast(factor, grad->type.dtype), {}, grad->type.shape));
    }
  }

  Value* state(std::size_t i, const char* suffix) {
    return update_.add_arg(str(params_[i]->name, ".", suffix), params_[i]->type, ArgKind::State);
  }

  void update(std::size_t i) {
    const OptimizerSpec& spec = options_.optimizer;
    b_.set_name(params_[i]->name + ".new");
    std::vector<Value*> states;
    std::vector<Value*> results;
    switch (spec.kind) {
      case OptimizerKind::Sgd:
        results = b_.emit_all(OpKind::Sgd, {params_[i], grads_[i], lr_},
                              {{"weight_decay", spec.weight_decay}});
        break;
      case OptimizerKind::SgdMomentum:
        states = {state(i, "momentum")};
        results = b_.emit_all(OpKind::SgdMomentum, {params_[i], grads_[i], states[0], lr_},
                              {{"momentum", spec.momentum}, {"weight_decay", spec.weight_decay}});
        break;
      case OptimizerKind::Adam:
      case OptimizerKind::AdamW:
        states = {state(i, "m"), state(i, "v")};
        results =
            b_.emit_all(OpKind::Adam, {params_[i], grads_[i], states[0], states[1], lr_, step_},
                        {{"beta1", spec.beta1},
                         {"beta2", spec.beta2},
                         {"eps", spec.eps},
                         {"weight_decay", spec.weight_decay},
                         {"decoupled", spec.kind == OptimizerKind::AdamW}});
        break;
    }
    update_.results.push_back({results[0], params_[i]->name, true});
    for (std::size_t s = 0; s < states.size(); ++s)
      update_.results.push_back({results[s + 1], states[s]->name, true});
  }

  Module& module_;
  const PassOptions& options_;
  Func& update_;
  Builder b_;
  std::vector<Value*> params_, grads_;
  Value* lr_ = nullptr;
  Value* step_ = nullptr;
};

}  // namespace

bool append_optimizer(Module& module, PassContext& context) {
  if (module.find("micro") == nullptr)
    throw CompileError("--append-optimizer", "needs a differentiated module");
  Optimizer(module, context.options).run();
  module.notes["lr"] = number_text(context.options.optimizer.lr);
  return true;
}

}  // namespace tessera
