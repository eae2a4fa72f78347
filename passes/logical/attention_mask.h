// What exporters add to attention scores: additive masks (0 or -inf, or computed from inputs),
// boolean selects, and the causal triangle in any of these forms.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ir/builder.h"

namespace tessera {

// A mask and the dimensions of the scores that it carries.
struct MaskPart {
  Value* value = nullptr;
  std::vector<std::int64_t> dims;
};

// One step from the product of queries and keys to what softmax reads.
struct MaskStep {
  MaskPart part;
  // Set for select(part, scores, hidden): the score of what `part` does not keep. Else `part` is
  // added.
  std::optional<double> hidden;
};

// What the attention op takes: hidden scores become `hidden` (the causal triangle, and a bool
// mask's false), then a float mask is added.
struct Masks {
  Value* scores = nullptr;  // without any mask
  bool causal = false;
  double hidden = 0;  // meaningful when something is hidden
  std::vector<MaskPart> keeps;
  std::vector<MaskPart> added;
};

// Whether constant masks are causal triangles, by what they are called and how they lie: all layers
// of a model share theirs. For one module.
using MaskCache = std::map<std::string, std::optional<double>>;

// Peels masks off the scores. Nothing when a part is no mask, depends on a parameter, or when the
// op cannot say the same: rows that are hidden completely are uniform for a finite `hidden` and NaN
// for -inf, and must stay so.
std::optional<Masks> split_masks(const Module& module, Value* masked, MaskCache& cache);

// The masks that are not causal as one operand: bool when nothing is added, else float.
std::optional<MaskPart> mask_operand(Builder& b, const Masks& masks, std::size_t rank);

}  // namespace tessera
