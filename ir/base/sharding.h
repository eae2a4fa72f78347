// How one dimension is cut over grid axes, and what a rank holds of it.
//
// A dimension of size n over an axis of p devices is cut in blocks of ceil(n/p); the last blocks
// may be shorter or empty. Several axes cut one after the other, the major first and then each part
// again, so gathering over the minor axis gives exactly the type without it. Coordinate 0 always
// holds the largest part.
#pragma once
#include "ir/base/grid.h"
#include "ir/base/shape.h"

namespace tessera {

// A half-open part [start, start + size) of a dimension.
struct Extent {
  std::int64_t start = 0;
  std::int64_t size = 0;
  bool operator==(const Extent&) const = default;
};

// The block of coordinate `at` among `parts` blocks of `whole`.
Extent cut(Extent whole, int parts, int at);

// What the rank at `coordinates` holds of a dimension of size `size` that is cut over `axes` (major
// to minor).
Extent local_extent(std::int64_t size, const Axes& axes, const Grid& grid,
                    const Coordinates& coordinates);

// The largest local size over all ranks (the one at coordinate 0).
std::int64_t largest_local_size(std::int64_t size, const Axes& axes, const Grid& grid);

// Whether every nested cut divides, so that all ranks hold equally much.
bool divides_evenly(std::int64_t size, const Axes& axes, const Grid& grid);

bool contains(const Axes& axes, AxisId axis);
bool intersects(const Axes& a, const Axes& b);
// Whether `axes` ends in `suffix` (its minor axes): only such axes can be gathered or cut without
// moving rows.
bool ends_with(const Axes& axes, const Axes& suffix);
Axes common_prefix(const Axes& a, const Axes& b);
Axes concatenated(Axes a, const Axes& b);
Axes without(const Axes& axes, const Axes& removed);

}  // namespace tessera
