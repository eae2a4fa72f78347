// How a reshape regroups dimensions: the finest partition of both shapes into runs of equal
// products.
//
//   [8, 16, 96] -> [128, 4, 24]:   {8,16} <-> {128},   {96} <-> {4,24}
#pragma once
#include <vector>

#include "ir/base/shape.h"

namespace tessera {

struct ReshapeGroup {
  std::size_t from_begin = 0, from_end = 0;  // dimensions of the operand
  std::size_t to_begin = 0, to_end = 0;      // dimensions of the result

  bool one_to_one() const { return from_end - from_begin == 1 && to_end - to_begin == 1; }
};

// Dimensions of size 1 without a partner form groups of their own with an empty other side. Shapes
// with a zero size are one-to-one where sizes agree from the front, then one group. Element counts
// must be equal.
std::vector<ReshapeGroup> reshape_groups(const Shape& from, const Shape& to);

}  // namespace tessera
