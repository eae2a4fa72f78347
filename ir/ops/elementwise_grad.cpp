// Gradients of elementwise ops, from operands x or results y, whichever is at hand.
#include "ir/ops/grads.h"

namespace tessera {
namespace {

Value* x_of(const Op& op) { return op.operand(0); }
Value* y_of(const Op& op) { return op.result(); }
Value* one_minus(Builder& b, Value* value) { return b.sub(b.fill_like(1.0, value), value); }
Value* square(Builder& b, Value* value) { return b.mul(value, value); }

Value* where(Builder& b, OpKind compare, Value* left, Value* right, Value* value) {
  return b.emit(OpKind::Select, {b.emit(compare, {left, right}), value, b.fill_like(0.0, value)});
}

}  // namespace

Grads grad_neg(Builder& b, const Op&, ResultGrads dy) { return {b.neg(dy[0])}; }
Grads grad_abs(Builder& b, const Op& op, ResultGrads dy) {
  return {b.mul(dy[0], b.emit(OpKind::Sign, {x_of(op)}))};
}
Grads grad_exp(Builder& b, const Op& op, ResultGrads dy) { return {b.mul(dy[0], y_of(op))}; }
Grads grad_log(Builder& b, const Op& op, ResultGrads dy) { return {b.div(dy[0], x_of(op))}; }
Grads grad_sqrt(Builder& b, const Op& op, ResultGrads dy) {
  return {b.div(b.scale(dy[0], 0.5), y_of(op))};
}
Grads grad_rsqrt(Builder& b, const Op& op, ResultGrads dy) {  // -1/2 x^-3/2
  return {b.scale(b.mul(dy[0], b.mul(y_of(op), square(b, y_of(op)))), -0.5)};
}
Grads grad_reciprocal(Builder& b, const Op& op, ResultGrads dy) {
  return {b.neg(b.mul(dy[0], square(b, y_of(op))))};
}
Grads grad_sin(Builder& b, const Op& op, ResultGrads dy) {
  return {b.mul(dy[0], b.emit(OpKind::Cos, {x_of(op)}))};
}
Grads grad_cos(Builder& b, const Op& op, ResultGrads dy) {
  return {b.neg(b.mul(dy[0], b.emit(OpKind::Sin, {x_of(op)})))};
}
Grads grad_tanh(Builder& b, const Op& op, ResultGrads dy) {
  return {b.mul(dy[0], one_minus(b, square(b, y_of(op))))};
}
Grads grad_erf(Builder& b, const Op& op, ResultGrads dy) {  // 2/sqrt(pi) e^-x^2
  Value* density = b.emit(OpKind::Exp, {b.neg(square(b, x_of(op)))});
  return {b.mul(dy[0], b.scale(density, 1.12837916709551257390))};
}
Grads grad_sigmoid(Builder& b, const Op& op, ResultGrads dy) {
  return {b.mul(dy[0], b.mul(y_of(op), one_minus(b, y_of(op))))};
}
Grads grad_relu(Builder& b, const Op& op, ResultGrads dy) {
  return {b.emit(OpKind::ReluGrad, {x_of(op), dy[0]})};
}
Grads grad_gelu(Builder& b, const Op& op, ResultGrads dy) {
  return {b.emit(OpKind::GeluGrad, {x_of(op), dy[0]})};
}
Grads grad_gelu_tanh(Builder& b, const Op& op, ResultGrads dy) {
  return {b.emit(OpKind::GeluTanhGrad, {x_of(op), dy[0]})};
}
Grads grad_silu(Builder& b, const Op& op, ResultGrads dy) {
  return {b.emit(OpKind::SiluGrad, {x_of(op), dy[0]})};
}
Grads grad_add(Builder&, const Op&, ResultGrads dy) { return {dy[0], dy[0]}; }
Grads grad_sub(Builder& b, const Op&, ResultGrads dy) { return {dy[0], b.neg(dy[0])}; }
Grads grad_mul(Builder& b, const Op& op, ResultGrads dy) {
  return {b.mul(dy[0], op.operand(1)), b.mul(dy[0], op.operand(0))};
}
Grads grad_div(Builder& b, const Op& op, ResultGrads dy) {
  Value* first = b.div(dy[0], op.operand(1));
  return {first, b.neg(b.mul(first, y_of(op)))};
}

// d/dx = p x^(p-1); d/dp = y ln x where x > 0 (as PyTorch: 0 elsewhere).
Grads grad_pow(Builder& b, const Op& op, ResultGrads dy) {
  Value* x = op.operand(0);
  Value* p = op.operand(1);
  const auto exponent = splat_of(b.module(), p);
  Value* slope = exponent && *exponent == 2.0
                     ? b.scale(x, 2.0)
                     : b.mul(p, b.emit(OpKind::Pow, {x, b.sub(p, b.fill_like(1.0, p))}));
  Value* dx = b.mul(dy[0], slope);
  if (exponent) return {dx, nullptr};
  Value* zero = b.fill_like(0.0, x);
  Value* safe =
      b.emit(OpKind::Select, {b.emit(OpKind::Greater, {x, zero}), x, b.fill_like(1.0, x)});
  return {dx, b.mul(dy[0], b.mul(y_of(op), b.emit(OpKind::Log, {safe})))};
}

// Equal operands share the gradient, as PyTorch does.
Grads grad_max(Builder& b, const Op& op, ResultGrads dy) {
  Value* half = b.scale(dy[0], 0.5);
  Value* zero = b.fill_like(0.0, dy[0]);
  Value* equal = b.emit(OpKind::Equal, {op.operand(0), op.operand(1)});
  Grads grads;
  for (std::size_t i : {0, 1}) {
    Value* wins = b.emit(op.kind == OpKind::Max ? OpKind::Greater : OpKind::Less,
                         {op.operand(i), op.operand(1 - i)});
    grads.push_back(
        b.emit(OpKind::Select, {equal, half, b.emit(OpKind::Select, {wins, dy[0], zero})}));
  }
  return grads;
}
Grads grad_min(Builder& b, const Op& op, ResultGrads dy) { return grad_max(b, op, dy); }

Grads grad_select(Builder& b, const Op& op, ResultGrads dy) {
  Value* zero = b.fill_like(0.0, dy[0]);
  return {nullptr, b.emit(OpKind::Select, {op.operand(0), dy[0], zero}),
          b.emit(OpKind::Select, {op.operand(0), zero, dy[0]})};
}

Grads grad_cast(Builder& b, const Op& op, ResultGrads dy) {
  if (!is_float(x_of(op)->type.dtype)) return {nullptr};
  return {b.cast(dy[0], x_of(op)->type.dtype)};
}

Grads grad_zero(Builder&, const Op& op, ResultGrads) { return Grads(op.operands.size(), nullptr); }

// The extreme elements of a reduction share its gradient.
Grads grad_reduce_extreme(Builder& b, const Op& op, ResultGrads dy) {
  Value* x = op.operand(0);
  Ints kept;
  const Ints& dims = op.attrs.ints("dims");
  for (std::int64_t d = 0; d < static_cast<std::int64_t>(x->type.rank()); ++d) {
    if (std::find(dims.begin(), dims.end(), d) == dims.end()) kept.push_back(d);
  }
  Value* y = b.broadcast(y_of(op), kept, x->type.shape);
  Value* hits = where(b, OpKind::Equal, x, y, b.fill_like(1.0, x));
  Value* count = b.reduce_sum(hits, dims);
  return {b.mul(hits, b.broadcast(b.div(dy[0], count), kept, x->type.shape))};
}

}  // namespace tessera
