// Gradients of row ops and attention: each is an op of its own, computed from what the forward op
// kept.
#include "ir/ops/grads.h"

namespace tessera {
namespace {

Value* first_result_grad(const Op& op, ResultGrads dy) {
  for (std::size_t i = 1; i < dy.size(); ++i) {
    TESSERA_CHECK(dy[i] == nullptr, mnemonic(op.kind), ": only the first result has a gradient");
  }
  return dy[0];
}

}  // namespace

Grads grad_softmax(Builder& b, const Op& op, ResultGrads dy) {
  return {b.emit(OpKind::SoftmaxGrad, {op.result(), dy[0]})};
}

Grads grad_log_softmax(Builder& b, const Op& op, ResultGrads dy) {
  return {b.emit(OpKind::LogSoftmaxGrad, {op.result(), dy[0]})};
}

Grads grad_layer_norm(Builder& b, const Op& op, ResultGrads dy) {
  return b.emit_all(
      OpKind::LayerNormGrad,
      {first_result_grad(op, dy), op.operand(0), op.operand(1), op.result(1), op.result(2)},
      op.attrs);
}

Grads grad_rms_norm(Builder& b, const Op& op, ResultGrads dy) {
  return b.emit_all(OpKind::RmsNormGrad,
                    {first_result_grad(op, dy), op.operand(0), op.operand(1), op.result(1)},
                    op.attrs);
}

Grads grad_cross_entropy(Builder& b, const Op& op, ResultGrads dy) {
  return {b.emit(OpKind::CrossEntropyGrad,
                 {op.operand(0), op.operand(1), op.result(1), first_result_grad(op, dy)}, op.attrs),
          nullptr};
}

Grads grad_attention(Builder& b, const Op& op, ResultGrads dy) {
  std::vector<Value*> operands{first_result_grad(op, dy),
                               op.operand(0),
                               op.operand(1),
                               op.operand(2),
                               op.result(0),
                               op.result(1)};
  if (op.attrs.has("mask")) operands.push_back(op.operand(3));
  Grads grads = b.emit_all(OpKind::AttentionGrad, operands, op.attrs);
  if (op.attrs.has("mask"))
    grads.push_back(nullptr);  // fuse_attention leaves masks that need gradients alone
  return grads;
}

}  // namespace tessera
