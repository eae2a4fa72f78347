#include "passes/logical/attention_mask.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <unordered_set>

#include "ir/base/text.h"
#include "passes/logical/match.h"

namespace tessera {
namespace {

// What is at most this hides a key of a row that keeps another one: its weight is exactly 0 in f32.
constexpr double kHidden = -1e4;

MaskPart part_of(Value* value) {
  MaskPart part{value, {}};
  for (std::size_t d = 0; d < value->type.rank(); ++d)
    part.dims.push_back(static_cast<std::int64_t>(d));
  while (part.value->def != nullptr && part.value->def->kind == OpKind::Broadcast) {
    std::vector<std::int64_t> dims;
    for (std::int64_t dim : part.value->def->attrs.ints("dims"))
      dims.push_back(part.dims[static_cast<std::size_t>(dim)]);
    part.dims = dims;
    part.value = part.value->def->operand(0);
  }
  return part;
}

// The largest score of a hidden key, if the step hides element (s, t) exactly where t > s + T - S
// and leaves the others alone. Other dimensions must not matter. With fewer keys than queries some
// rows keep nothing: no triangle then.
std::optional<double> causal_fill(const Tensor& tensor, const MaskStep& step, std::size_t rank) {
  const MaskPart& part = step.part;
  const auto find = [&](std::size_t dim) {
    return static_cast<std::size_t>(std::ranges::find(part.dims, static_cast<std::int64_t>(dim)) -
                                    part.dims.begin());
  };
  const std::size_t s_at = find(rank - 2), t_at = find(rank - 1);
  if (s_at == part.dims.size() || t_at == part.dims.size()) return std::nullopt;
  const Shape& shape = tensor.shape();
  const std::int64_t shift = shape[t_at] - shape[s_at];
  if (shift < 0) return std::nullopt;
  double fill = step.hidden.value_or(-HUGE_VAL);
  const auto strides = row_major_strides(shape);
  for (std::int64_t i = 0; i < tensor.size(); ++i) {
    const std::int64_t s = i / strides[s_at] % shape[s_at];
    const std::int64_t t = i / strides[t_at] % shape[t_at];
    const double value = tensor.number(i);
    const bool hidden = step.hidden ? value == 0 : value <= kHidden;
    if (hidden != (t > s + shift)) return std::nullopt;
    if (!step.hidden && !hidden && value != 0) return std::nullopt;
    if (!step.hidden && hidden) fill = std::max(fill, value);
  }
  return fill;
}

// The same, once for each constant.
std::optional<double> causal_fill(const Module& module, const MaskStep& step, std::size_t rank,
                                  MaskCache& cache) {
  const Tensor* tensor = constant_of(module, step.part.value);
  if (tensor == nullptr || tensor->size() == 0) return std::nullopt;
  const std::string key = str(step.part.value->def->attrs.text("data"), ' ', rank, ' ',
                              join(step.part.dims, ","), ' ', step.hidden.value_or(1));
  const auto found = cache.find(key);
  if (found != cache.end()) return found->second;
  return cache[key] = causal_fill(*tensor, step, rank);
}

bool depends_on_param(const Func& func, const Value* value) {
  std::unordered_set<const Value*> seen;
  std::vector<const Value*> stack{value};
  while (!stack.empty()) {
    const Value* at = stack.back();
    stack.pop_back();
    if (!seen.insert(at).second) continue;
    if (at->def == nullptr) {
      if (func.arg_of(at).kind == ArgKind::Param) return true;
      continue;
    }
    for (const Value* operand : at->def->operands) stack.push_back(operand);
  }
  return false;
}

bool leads_to_product(const Module& module, Value* value) {
  for (;;) {
    const match::Scaled inner = match::all_scaled(module, value);
    const Op* op = inner.value->def;
    if (op == nullptr) return false;
    if (op->kind == OpKind::Einsum) return true;
    if (op->kind == OpKind::Add)
      return leads_to_product(module, op->operand(0)) || leads_to_product(module, op->operand(1));
    if (op->kind != OpKind::Select) return false;
    value = op->operand(1);
  }
}

// The steps from the softmax inwards; ends at what is no mask.
std::optional<std::vector<MaskStep>> peel(const Module& module, Value*& scores) {
  std::vector<MaskStep> steps;
  for (;;) {
    Op* op = scores->def;
    if (op == nullptr) return steps;
    MaskStep step;
    Value* inner = nullptr;
    if (op->kind == OpKind::Select) {  // select(keep, scores, hidden)
      step.hidden = splat_of(module, op->operand(2));
      if (!step.hidden) return std::nullopt;
      step.part = part_of(op->operand(0));
      inner = op->operand(1);
    } else if (op->kind == OpKind::Add) {
      const std::size_t at = leads_to_product(module, op->operand(0)) ? 0 : 1;
      step.part = part_of(op->operand(1 - at));
      inner = op->operand(at);
    } else {
      return steps;
    }
    if (!leads_to_product(module, inner) || depends_on_param(*op->func, step.part.value))
      return std::nullopt;
    steps.push_back(std::move(step));
    scores = inner;
  }
}

}  // namespace

std::optional<Masks> split_masks(const Module& module, Value* masked, MaskCache& cache) {
  Masks masks{masked, false, -HUGE_VAL, {}, {}};
  const std::size_t rank = masked->type.rank();
  auto steps = peel(module, masks.scores);
  if (!steps) return std::nullopt;
  std::optional<double> hidden;
  for (MaskStep& step : *steps) {
    const auto fill = causal_fill(module, step, rank, cache);
    const bool alone = steps->size() == 1;
    // Every row keeps a key, so what is hidden may as well be -inf.
    if (fill && alone && *fill <= kHidden) {
      masks.causal = true;
      return masks;
    }
    const bool triangle = fill && (step.hidden || *fill == -HUGE_VAL);
    if (!triangle && !step.hidden) {
      // Adding to what is hidden matters unless that is -inf. Steps come from the outside in.
      if (hidden && *hidden != -HUGE_VAL) return std::nullopt;
      masks.added.push_back(step.part);
      continue;
    }
    const double value = triangle ? *fill : *step.hidden;
    if (hidden && *hidden != value) return std::nullopt;
    hidden = value;
    if (triangle) {
      masks.causal = true;
    } else {
      masks.keeps.push_back(step.part);
    }
  }
  masks.hidden = hidden.value_or(-HUGE_VAL);
  // One operand cannot both hide with a finite value and add.
  if (!masks.keeps.empty() && !masks.added.empty() && masks.hidden != -HUGE_VAL)
    return std::nullopt;
  return masks;
}

std::optional<MaskPart> mask_operand(Builder& b, const Masks& masks, std::size_t rank) {
  std::vector<MaskPart> parts = masks.keeps;
  parts.insert(parts.end(), masks.added.begin(), masks.added.end());
  if (parts.empty()) return std::nullopt;
  if (parts.size() == 1) return parts[0];
  MaskPart joined;
  Shape shape;
  for (std::size_t d = 0; d < rank; ++d) {
    for (const MaskPart& part : parts) {
      const auto at = std::ranges::find(part.dims, static_cast<std::int64_t>(d));
      if (at == part.dims.end()) continue;
      joined.dims.push_back(static_cast<std::int64_t>(d));
      shape.push_back(part.value->type.shape[static_cast<std::size_t>(at - part.dims.begin())]);
      break;
    }
  }
  const DType dtype = masks.scores->type.dtype;
  const bool adds = !masks.added.empty();
  for (const MaskPart& part : parts) {
    Value* value = part.value;
    if (adds && value->type.dtype == DType::Bool) {
      Value* hidden = b.fill(masks.hidden, dtype, value->type.shape);
      value = b.emit(OpKind::Select, {value, b.fill_like(0, hidden), hidden});
    }
    Ints places;
    for (std::int64_t dim : part.dims)
      places.push_back(std::ranges::find(joined.dims, dim) - joined.dims.begin());
    value = b.broadcast(value, places, shape);
    if (joined.value != nullptr)
      value = adds ? b.add(joined.value, value) : b.emit(OpKind::And, {joined.value, value});
    joined.value = value;
  }
  return joined;
}

}  // namespace tessera
