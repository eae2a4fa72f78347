#include "passes/logical/attention_mask.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <unordered_set>

#include "passes/logical/match.h"

namespace tessera {
namespace {

constexpr double kHidden =
    -1e4;  // what is at most this hides a key: its weight is exactly 0 in f32

MaskPart part_of(Value* value, bool keeps) {
  MaskPart part{value, {}, keeps};
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

// Whether element (s, t) of a constant mask is hidden exactly where t > s + T - S. Other dimensions
// must not matter.
bool is_causal(const Module& module, const MaskPart& part, std::size_t rank) {
  const Tensor* tensor = constant_of(module, part.value);
  if (tensor == nullptr || tensor->size() == 0) return false;
  const auto find = [&](std::size_t dim) {
    return static_cast<std::size_t>(std::ranges::find(part.dims, static_cast<std::int64_t>(dim)) -
                                    part.dims.begin());
  };
  const std::size_t s_at = find(rank - 2), t_at = find(rank - 1);
  if (s_at == part.dims.size() || t_at == part.dims.size()) return false;
  const Shape& shape = tensor->shape();
  const std::int64_t shift = shape[t_at] - shape[s_at];
  const auto strides = row_major_strides(shape);
  for (std::int64_t i = 0; i < tensor->size(); ++i) {
    const std::int64_t s = i / strides[s_at] % shape[s_at];
    const std::int64_t t = i / strides[t_at] % shape[t_at];
    const double value = tensor->number(i);
    const bool hidden = part.keeps ? value == 0 : value <= kHidden;
    if (hidden != (t > s + shift)) return false;
    if (!part.keeps && !hidden && value != 0) return false;
  }
  return shift >=
         0;  // with fewer keys than queries some rows are empty, where -1e4 and -inf differ
}

bool depends_on_param(const Value* value) {
  std::unordered_set<const Value*> seen;
  std::vector<const Value*> stack{value};
  while (!stack.empty()) {
    const Value* at = stack.back();
    stack.pop_back();
    if (!seen.insert(at).second) continue;
    if (at->def == nullptr) {
      if (is_float(at->type.dtype)) return true;  // float inputs too: cheaper to be careful
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

void take(const Module& module, MaskParts& parts, MaskPart mask, std::size_t rank) {
  if (is_causal(module, mask, rank)) {
    parts.causal = true;
  } else if (depends_on_param(mask.value)) {
    parts.understood = false;
  } else {
    parts.others.push_back(std::move(mask));
  }
}

}  // namespace

MaskParts split_masks(const Module& module, Value* masked) {
  MaskParts parts{masked, false, {}, true};
  const std::size_t rank = masked->type.rank();
  for (;;) {
    Op* op = parts.scores->def;
    if (op == nullptr) return parts;
    if (op->kind == OpKind::Select) {  // select(keep, scores, hidden)
      const auto hidden = splat_of(module, op->operand(2));
      if (!hidden || *hidden > kHidden || !leads_to_product(module, op->operand(1))) {
        parts.understood = false;
        return parts;
      }
      take(module, parts, part_of(op->operand(0), true), rank);
      parts.scores = op->operand(1);
    } else if (op->kind == OpKind::Add) {
      const std::size_t scores = leads_to_product(module, op->operand(0)) ? 0 : 1;
      if (!leads_to_product(module, op->operand(scores))) {
        parts.understood = false;
        return parts;
      }
      take(module, parts, part_of(op->operand(1 - scores), false), rank);
      parts.scores = op->operand(scores);
    } else {
      return parts;
    }
  }
}

std::optional<MaskPart> mask_operand(Builder& b, const MaskParts& masks, std::size_t rank) {
  if (masks.others.empty()) return std::nullopt;
  if (masks.others.size() == 1) return masks.others[0];
  MaskPart joined{nullptr, {}, false};
  Shape shape;
  for (std::size_t d = 0; d < rank; ++d) {
    for (const MaskPart& part : masks.others) {
      const auto at = std::ranges::find(part.dims, static_cast<std::int64_t>(d));
      if (at == part.dims.end()) continue;
      joined.dims.push_back(static_cast<std::int64_t>(d));
      shape.push_back(part.value->type.shape[static_cast<std::size_t>(at - part.dims.begin())]);
      break;
    }
  }
  const DType dtype = masks.scores->type.dtype;
  for (const MaskPart& part : masks.others) {
    Value* value = part.value;
    if (part.keeps) {
      Value* hidden = b.fill(-HUGE_VAL, dtype, value->type.shape);
      value = b.emit(OpKind::Select, {value, b.fill_like(0, hidden), hidden});
    }
    Ints places;
    for (std::int64_t dim : part.dims) {
      places.push_back(std::ranges::find(joined.dims, dim) - joined.dims.begin());
    }
    value = b.broadcast(value, places, shape);
    joined.value = joined.value == nullptr ? value : b.add(joined.value, value);
  }
  return joined;
}

}  // namespace tessera
