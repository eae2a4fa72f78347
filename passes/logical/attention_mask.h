// What exporters add to attention scores: additive masks (0 or -inf, or computed from inputs),
// boolean selects, and the causal triangle in any of these forms.
#pragma once
#include <optional>
#include <vector>

#include "ir/builder.h"

namespace tessera {

// A mask and the dimensions of the scores that it carries.
struct MaskPart {
  Value* value = nullptr;
  std::vector<std::int64_t> dims;
  bool keeps = false;  // bool: true = keep; else added
};

struct MaskParts {
  Value* scores = nullptr;  // without any mask
  bool causal = false;
  std::vector<MaskPart> others;
  bool understood = true;  // false: something that is no mask, or one that depends on a parameter
};

// Peels masks off the scores.
MaskParts split_masks(const Module& module, Value* masked);

// The other masks as one operand (added together if there are several).
std::optional<MaskPart> mask_operand(Builder& b, const MaskParts& masks, std::size_t rank);

}  // namespace tessera
