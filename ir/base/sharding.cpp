#include "ir/base/sharding.h"

#include <algorithm>

namespace tessera {

Extent cut(Extent whole, int parts, int at) {
  const std::int64_t block = (whole.size + parts - 1) / parts;
  const std::int64_t start = std::min(whole.size, block * at);
  return {whole.start + start, std::min(block, whole.size - start)};
}

Extent local_extent(std::int64_t size, const Axes& axes, const Grid& grid,
                    const Coordinates& coordinates) {
  Extent part{0, size};
  for (AxisId axis : axes)
    part = cut(part, grid.size(axis), coordinates[static_cast<std::size_t>(axis)]);
  return part;
}

std::int64_t largest_local_size(std::int64_t size, const Axes& axes, const Grid& grid) {
  for (AxisId axis : axes) size = (size + grid.size(axis) - 1) / grid.size(axis);
  return size;
}

bool divides_evenly(std::int64_t size, const Axes& axes, const Grid& grid) {
  return size % grid.size(axes) == 0;
}

bool contains(const Axes& axes, AxisId axis) { return std::ranges::find(axes, axis) != axes.end(); }

bool intersects(const Axes& a, const Axes& b) {
  return std::ranges::any_of(a, [&](AxisId axis) { return contains(b, axis); });
}

bool ends_with(const Axes& axes, const Axes& suffix) {
  return suffix.size() <= axes.size() && std::equal(suffix.rbegin(), suffix.rend(), axes.rbegin());
}

Axes common_prefix(const Axes& a, const Axes& b) {
  Axes prefix;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()) && a[i] == b[i]; ++i)
    prefix.push_back(a[i]);
  return prefix;
}

Axes concatenated(Axes a, const Axes& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

Axes without(const Axes& axes, const Axes& removed) {
  Axes kept;
  for (AxisId axis : axes) {
    if (!contains(removed, axis)) kept.push_back(axis);
  }
  return kept;
}

}  // namespace tessera
