// Movement: elements keep their values. Dimensions that are sliced, padded, concatenated or
// regrouped are whole; the others are free.
#include <algorithm>

#include "ir/base/diag.h"
#include "ir/base/reshape_groups.h"
#include "ir/base/text.h"
#include "ir/op_def.h"
#include "ir/ops/grads.h"

namespace tessera {
namespace {

[[noreturn]] void refuse(const Op& op, const std::string& what) {
  throw CompileError(op.origin.empty() ? "" : str("node '", op.origin, "'"),
                     str(mnemonic(op.kind), ": ", what));
}

std::size_t dim_of(const Op& op) {
  const std::int64_t dim = op.attrs.integer("dim");
  if (dim < 0 || dim >= static_cast<std::int64_t>(op.operands[0]->type.rank())) {
    refuse(op, str("dim ", dim, " of a value of rank ", op.operands[0]->type.rank()));
  }
  return static_cast<std::size_t>(dim);
}

// One-to-one dimensions share a loop; dimensions of a group that merges or splits are whole.
IndexMap map_reshape(const Op& op) {
  const Shape& from = op.operands[0]->type.shape;
  const Shape& to = op.results[0]->type.shape;
  if (elements(from) != elements(to)) refuse(op, "the result has another count of elements");
  const std::string source = fresh_loops(from.size(), "");
  std::string target = fresh_loops(to.size(), source);
  IndexMap map;
  for (const ReshapeGroup& group : reshape_groups(from, to)) {
    if (group.one_to_one()) {
      target[group.to_begin] = source[group.from_begin];
      continue;
    }
    map.whole += source.substr(group.from_begin, group.from_end - group.from_begin);
    map.whole += target.substr(group.to_begin, group.to_end - group.to_begin);
  }
  map.operands = {source};
  map.results = {target};
  return map;
}

IndexMap map_transpose(const Op& op) {
  const Ints& perm = op.attrs.ints("perm");
  const std::string loops = fresh_loops(op.operands[0]->type.rank(), "");
  std::string permuted;
  for (std::int64_t dim : perm) {
    if (dim < 0 || dim >= static_cast<std::int64_t>(loops.size()))
      refuse(op, str("perm has ", dim));
    permuted += loops[static_cast<std::size_t>(dim)];
  }
  std::string sorted = permuted;
  std::ranges::sort(sorted);
  std::string all = loops;
  std::ranges::sort(all);
  if (sorted != all) refuse(op, "perm is not a permutation of the dimensions");
  return {{loops}, {permuted}, "", ""};
}

// The dimension `dim` changes its size: a whole loop on each side.
IndexMap map_resized(const Op& op) {
  const std::size_t dim = dim_of(op);
  const std::size_t rank = op.operands[0]->type.rank();
  const std::string loops = fresh_loops(rank, "");
  const std::string fresh = fresh_loops(op.operands.size() + 1, loops);
  IndexMap map;
  for (std::size_t i = 0; i < op.operands.size(); ++i) {
    map.operands.push_back(loops);
    map.operands.back()[dim] = fresh[i];
  }
  map.results.push_back(loops);
  map.results.back()[dim] = fresh.back();
  map.whole = fresh;
  return map;
}

IndexMap map_broadcast(const Op& op) {
  const Ints& dims = op.attrs.ints("dims");
  const std::string result = fresh_loops(op.results[0]->type.rank(), "");
  std::string operand;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] < 0 || dims[i] >= static_cast<std::int64_t>(result.size()) ||
        (i > 0 && dims[i] <= dims[i - 1])) {
      refuse(op, "dims must be ascending dimensions of the result");
    }
    operand += result[static_cast<std::size_t>(dims[i])];
  }
  return {{operand}, {result}, "", ""};
}

std::vector<Type> infer_slice(const Op& op) {
  const std::size_t dim = dim_of(op);
  Type type = op.operands[0]->type.logical();
  const std::int64_t size = type.shape[dim];
  const std::int64_t start = op.attrs.integer("start");
  const std::int64_t stop = op.attrs.integer("stop");
  const std::int64_t step = op.attrs.integer("step");
  const bool forward = step > 0 && 0 <= start && start <= stop && stop <= size;
  const bool backward = step < 0 && -1 <= stop && stop <= start && start < size;
  if (!forward && !backward && size != 0) {
    refuse(op, str("[", start, ":", stop, ":", step, "] of dimension ", dim, " of size ", size));
  }
  const std::int64_t span = forward ? stop - start + step - 1 : start - stop - step - 1;
  type.shape[dim] = size == 0 ? 0 : span / (step > 0 ? step : -step);
  return {type};
}

std::vector<Type> infer_pad(const Op& op) {
  const std::size_t dim = dim_of(op);
  Type type = op.operands[0]->type.logical();
  if (op.attrs.integer("low") < 0 || op.attrs.integer("high") < 0)
    refuse(op, "low and high must not be negative");
  type.shape[dim] += op.attrs.integer("low") + op.attrs.integer("high");
  return {type};
}

std::vector<Type> infer_concat(const Op& op) {
  const std::size_t dim = dim_of(op);
  Type type = op.operands[0]->type.logical();
  type.shape[dim] = 0;
  for (const Value* operand : op.operands) {
    Shape others = operand->type.shape;
    if (others.size() != type.rank() || operand->type.dtype != type.dtype)
      refuse(op, "operands differ in rank or dtype");
    type.shape[dim] += others[dim];
    others[dim] = type.shape[dim];
    if (others != type.shape)
      refuse(op, str("operand %", operand->name, " differs outside dimension ", dim));
  }
  return {type};
}

}  // namespace

constinit const OpDef kReshape{.map = map_reshape,
                               .linear = Linearity::Joint,
                               .moves_only = true,
                               .explicit_type = true,
                               .grad = grad_reshape};
constinit const OpDef kTranspose{
    .map = map_transpose, .linear = Linearity::Joint, .moves_only = true, .grad = grad_transpose};
constinit const OpDef kSlice{.map = map_resized,
                             .linear = Linearity::Joint,
                             .moves_only = true,
                             .infer = infer_slice,
                             .grad = grad_slice};
constinit const OpDef kPad{.map = map_resized, .infer = infer_pad, .grad = grad_pad};
constinit const OpDef kConcat{.map = map_resized,
                              .linear = Linearity::Joint,
                              .moves_only = true,
                              .infer = infer_concat,
                              .grad = grad_concat};
constinit const OpDef kBroadcast{.map = map_broadcast,
                                 .linear = Linearity::Joint,
                                 .moves_only = true,
                                 .explicit_type = true,
                                 .grad = grad_broadcast};

}  // namespace tessera
