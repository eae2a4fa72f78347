// Gradients of contractions, reductions, lookups and movement: each is the transposed linear map.
#include <algorithm>
#include <numeric>

#include "ir/base/text.h"
#include "ir/op_def.h"
#include "ir/ops/grads.h"

namespace tessera {
namespace {

Ints kept_dims(const Op& op) {
  const Ints& dims = op.attrs.ints("dims");
  Ints kept;
  for (std::int64_t d = 0; d < static_cast<std::int64_t>(op.operand(0)->type.rank()); ++d) {
    if (std::ranges::find(dims, d) == dims.end()) kept.push_back(d);
  }
  return kept;
}

// Gradient of one operand: contract the result's gradient with the other operand; loops that occur
// in neither are spread by a broadcast.
Value* einsum_operand_grad(Builder& b, const Op& op, const IndexMap& map, std::size_t i,
                           Value* dy) {
  const std::string& wanted = map.operands[i];
  std::vector<Value*> operands{dy};
  std::string spec = map.results[0];
  std::string available = map.results[0];
  if (map.operands.size() == 2) {
    operands.push_back(op.operand(1 - i));
    spec += "," + map.operands[1 - i];
    available += map.operands[1 - i];
  }
  std::string computed;
  Ints places;
  for (std::size_t d = 0; d < wanted.size(); ++d) {
    if (available.find(wanted[d]) == std::string::npos) continue;
    computed += wanted[d];
    places.push_back(static_cast<std::int64_t>(d));
  }
  Value* grad = b.einsum(operands, str(spec, "->", computed));
  return b.broadcast(grad, places, op.operand(i)->type.shape);
}

}  // namespace

Grads grad_einsum(Builder& b, const Op& op, ResultGrads dy) {
  const IndexMap map = index_map(op);
  Grads grads;
  for (std::size_t i = 0; i < op.operands.size(); ++i)
    grads.push_back(einsum_operand_grad(b, op, map, i, dy[0]));
  return grads;
}

Grads grad_reduce_sum(Builder& b, const Op& op, ResultGrads dy) {
  return {b.broadcast(dy[0], kept_dims(op), op.operand(0)->type.shape)};
}

Grads grad_cum_sum(Builder& b, const Op& op, ResultGrads dy) {
  AttrList attrs = op.attrs;
  attrs.set("reverse", !op.attrs.flag("reverse"));
  if (!attrs.has("exclusive"))
    attrs = {{"dim", op.attrs.integer("dim")}, {"reverse", !op.attrs.flag("reverse")}};
  return {b.emit(OpKind::CumSum, {dy[0]}, attrs)};
}

Grads grad_gather(Builder& b, const Op& op, ResultGrads dy) {
  return {b.emit_typed(OpKind::ScatterAdd, {op.operand(1), dy[0]},
                       {{"dim", op.attrs.integer("dim")}}, op.operand(0)->type),
          nullptr};
}

Grads grad_gather_elements(Builder& b, const Op& op, ResultGrads dy) {
  Value* zeros = b.fill_like(0.0, op.operand(0));
  return {b.emit(OpKind::ScatterElements, {zeros, op.operand(1), dy[0]},
                 {{"dim", op.attrs.integer("dim")}, {"add", true}}),
          nullptr};
}

Grads grad_reshape(Builder& b, const Op& op, ResultGrads dy) {
  return {b.reshape(dy[0], op.operand(0)->type.shape)};
}

Grads grad_transpose(Builder& b, const Op& op, ResultGrads dy) {
  const Ints& perm = op.attrs.ints("perm");
  Ints inverse(perm.size());
  for (std::size_t i = 0; i < perm.size(); ++i)
    inverse[static_cast<std::size_t>(perm[i])] = static_cast<std::int64_t>(i);
  return {b.transpose(dy[0], inverse)};
}

// A slice with steps spreads its gradient by a scatter; a plain one pads it.
Grads grad_slice(Builder& b, const Op& op, ResultGrads dy) {
  const std::int64_t dim = op.attrs.integer("dim");
  const std::int64_t start = op.attrs.integer("start");
  const std::int64_t step = op.attrs.integer("step");
  const std::int64_t size = op.operand(0)->type.shape[static_cast<std::size_t>(dim)];
  if (step == 1) {
    return {b.emit(
        OpKind::Pad, {dy[0]},
        {{"dim", dim}, {"low", start}, {"high", size - op.attrs.integer("stop")}, {"value", 0.0}})};
  }
  const std::int64_t count = dy[0]->type.shape[static_cast<std::size_t>(dim)];
  Tensor ids(DType::I64, {count});
  for (std::int64_t i = 0; i < count; ++i)
    ids.mutable_view<std::int64_t>()[static_cast<std::size_t>(i)] = start + i * step;
  return {b.emit_typed(OpKind::ScatterAdd, {b.constant(ids), dy[0]}, {{"dim", dim}},
                       op.operand(0)->type)};
}

Grads grad_pad(Builder& b, const Op& op, ResultGrads dy) {
  const std::int64_t low = op.attrs.integer("low");
  const std::int64_t dim = op.attrs.integer("dim");
  return {b.slice(dy[0], dim, low, low + op.operand(0)->type.shape[static_cast<std::size_t>(dim)])};
}

Grads grad_concat(Builder& b, const Op& op, ResultGrads dy) {
  const std::int64_t dim = op.attrs.integer("dim");
  Grads grads;
  std::int64_t at = 0;
  for (const Value* operand : op.operands) {
    const std::int64_t size = operand->type.shape[static_cast<std::size_t>(dim)];
    grads.push_back(b.slice(dy[0], dim, at, at + size));
    at += size;
  }
  return grads;
}

Grads grad_broadcast(Builder& b, const Op& op, ResultGrads dy) {
  const Ints& dims = op.attrs.ints("dims");
  Ints added;
  for (std::int64_t d = 0; d < static_cast<std::int64_t>(op.result()->type.rank()); ++d) {
    if (std::ranges::find(dims, d) == dims.end()) added.push_back(d);
  }
  return {b.reduce_sum(dy[0], added)};
}

}  // namespace tessera
