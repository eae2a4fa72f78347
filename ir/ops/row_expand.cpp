// Row ops by primitives, for plans that cut the row: reductions over J leave partials that the type
// checker reduces. Means come first, then centred squares, as in the fused kernels.
#include "ir/ops/grads.h"

namespace tessera {
namespace {

std::int64_t last_dim(const Value* x) { return static_cast<std::int64_t>(x->type.rank()) - 1; }
double width(const Value* x) { return static_cast<double>(x->type.shape.back()); }
Value* row_sum(Builder& b, Value* x) { return b.reduce_sum(x, {last_dim(x)}); }
Value* row_mean(Builder& b, Value* x) { return b.scale(row_sum(b, x), 1.0 / width(x)); }
Value* spread(Builder& b, Value* rows, const Value* like) {
  return b.broadcast_columns(rows, like);
}

Ints leading_dims(const Value* x) {
  Ints dims;
  for (std::int64_t d = 0; d < last_dim(x); ++d) dims.push_back(d);
  return dims;
}

struct Shifted {
  Value* exps;     // e^(x - max)
  Value* sums;     // per row
  Value* maximum;  // per row
  Value* centred;  // x - max
};

Shifted shifted_exp(Builder& b, Value* x) {
  Value* maximum = b.emit(OpKind::ReduceMax, {x}, {{"dims", Ints{last_dim(x)}}});
  Value* centred = b.sub(x, spread(b, maximum, x));
  Value* exps = b.emit(OpKind::Exp, {centred});
  return {exps, row_sum(b, exps), maximum, centred};
}

}  // namespace

std::vector<Value*> expand_softmax(Builder& b, const Op& op) {
  const Shifted s = shifted_exp(b, op.operand(0));
  return {b.mul(s.exps, spread(b, b.emit(OpKind::Reciprocal, {s.sums}), s.exps))};
}

std::vector<Value*> expand_softmax_grad(Builder& b, const Op& op) {
  Value* y = op.operand(0);
  Value* dy = op.operand(1);
  return {b.mul(y, b.sub(dy, spread(b, row_sum(b, b.mul(y, dy)), dy)))};
}

std::vector<Value*> expand_log_softmax(Builder& b, const Op& op) {
  const Shifted s = shifted_exp(b, op.operand(0));
  return {b.sub(s.centred, spread(b, b.emit(OpKind::Log, {s.sums}), s.centred))};
}

std::vector<Value*> expand_log_softmax_grad(Builder& b, const Op& op) {
  Value* y = op.operand(0);
  Value* dy = op.operand(1);
  return {b.sub(dy, b.mul(b.emit(OpKind::Exp, {y}), spread(b, row_sum(b, dy), dy)))};
}

std::vector<Value*> expand_layer_norm(Builder& b, const Op& op) {
  Value* x = op.operand(0);
  Value* mean = row_mean(b, x);
  Value* centred = b.sub(x, spread(b, mean, x));
  Value* variance = row_mean(b, b.mul(centred, centred));
  Value* rstd =
      b.emit(OpKind::Rsqrt, {b.add(variance, b.fill_like(op.attrs.number("eps"), variance))});
  Value* normed = b.mul(centred, spread(b, rstd, x));
  Value* y =
      b.add(b.mul(normed, b.broadcast_rows(op.operand(1), x)), b.broadcast_rows(op.operand(2), x));
  return {y, mean, rstd};
}

std::vector<Value*> expand_layer_norm_grad(Builder& b, const Op& op) {
  Value* dy = op.operand(0);
  Value* x = op.operand(1);
  Value* rstd = spread(b, op.operand(4), x);
  Value* c = b.mul(b.sub(x, spread(b, op.operand(3), x)), rstd);
  Value* h = b.mul(dy, b.broadcast_rows(op.operand(2), x));
  Value* mean_h = spread(b, row_mean(b, h), x);
  Value* mean_hc = spread(b, row_mean(b, b.mul(h, c)), x);
  Value* dx = b.mul(rstd, b.sub(b.sub(h, mean_h), b.mul(c, mean_hc)));
  const Ints rows = leading_dims(x);
  return {dx, b.reduce_sum(b.mul(dy, c), rows), b.reduce_sum(dy, rows)};
}

std::vector<Value*> expand_rms_norm(Builder& b, const Op& op) {
  Value* x = op.operand(0);
  Value* mean = row_mean(b, b.mul(x, x));
  Value* rstd = b.emit(OpKind::Rsqrt, {b.add(mean, b.fill_like(op.attrs.number("eps"), mean))});
  Value* y = b.mul(b.mul(x, spread(b, rstd, x)), b.broadcast_rows(op.operand(1), x));
  return {y, rstd};
}

std::vector<Value*> expand_rms_norm_grad(Builder& b, const Op& op) {
  Value* dy = op.operand(0);
  Value* x = op.operand(1);
  Value* rstd = op.operand(3);
  Value* h = b.mul(dy, b.broadcast_rows(op.operand(2), x));
  Value* factor = b.mul(row_mean(b, b.mul(h, x)), b.mul(rstd, rstd));
  Value* dx = b.mul(spread(b, rstd, x), b.sub(h, b.mul(x, spread(b, factor, x))));
  Value* dgamma = b.reduce_sum(b.mul(dy, b.mul(x, spread(b, rstd, x))), leading_dims(x));
  return {dx, dgamma};
}

namespace {

// Which element of each row is the label's, and which rows count.
struct Labels {
  Value* hit;     // bool [..., J]
  Value* counts;  // bool [...]
};

Labels label_masks(Builder& b, const Op& op) {
  Value* logits = op.operand(0);
  Value* labels = op.operand(1);
  Value* classes = b.iota(last_dim(logits), labels->type.dtype, logits->type.shape);
  Value* ignored = b.fill_like(static_cast<double>(op.attrs.integer("ignore")), labels);
  return {b.emit(OpKind::Equal, {classes, spread(b, labels, logits)}),
          b.emit(OpKind::NotEqual, {labels, ignored})};
}

}  // namespace

std::vector<Value*> expand_cross_entropy(Builder& b, const Op& op) {
  Value* logits = op.operand(0);
  const Labels labels = label_masks(b, op);
  const Shifted s = shifted_exp(b, logits);
  Value* lse = b.add(b.emit(OpKind::Log, {s.sums}), s.maximum);
  Value* picked =
      row_sum(b, b.emit(OpKind::Select, {labels.hit, logits, b.fill_like(0.0, logits)}));
  Value* loss = b.emit(OpKind::Select, {labels.counts, b.sub(lse, picked), b.fill_like(0.0, lse)});
  return {loss, lse};
}

std::vector<Value*> expand_cross_entropy_grad(Builder& b, const Op& op) {
  Value* logits = op.operand(0);
  const Labels labels = label_masks(b, op);
  Value* probabilities = b.emit(OpKind::Exp, {b.sub(logits, spread(b, op.operand(2), logits))});
  Value* one_hot =
      b.emit(OpKind::Select, {labels.hit, b.fill_like(1.0, logits), b.fill_like(0.0, logits)});
  Value* weight =
      b.emit(OpKind::Select, {labels.counts, op.operand(3), b.fill_like(0.0, op.operand(3))});
  return {b.mul(b.sub(probabilities, one_hot), spread(b, weight, logits))};
}

}  // namespace tessera
