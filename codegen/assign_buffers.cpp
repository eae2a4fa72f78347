#include "codegen/assign_buffers.h"

#include <algorithm>
#include <numeric>

namespace tessera {
namespace {

std::int64_t aligned(std::int64_t value, std::int64_t alignment) {
  return (value + alignment - 1) / alignment * alignment;
}

struct Placed {
  std::int64_t offset, end;
  int first, last;
};

}  // namespace

Placement assign_buffers(const std::vector<Lifetime>& buffers, std::int64_t base,
                         std::int64_t alignment) {
  Placement result;
  result.offsets.assign(buffers.size(), base);
  result.high_water = base;
  std::vector<std::size_t> order(buffers.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(
      order, [&](std::size_t a, std::size_t b) { return buffers[a].bytes > buffers[b].bytes; });
  std::vector<Placed> placed;  // sorted by offset
  for (const std::size_t i : order) {
    const Lifetime& buffer = buffers[i];
    const std::int64_t bytes = aligned(std::max<std::int64_t>(buffer.bytes, 1), alignment);
    std::int64_t offset = base;
    for (const Placed& other : placed) {
      if (other.last < buffer.first || buffer.last < other.first) continue;
      if (other.offset >= offset + bytes) break;
      offset = std::max(offset, other.end);
    }
    const Placed own{offset, offset + bytes, buffer.first, buffer.last};
    placed.insert(std::ranges::upper_bound(placed, own.offset, {}, &Placed::offset), own);
    result.offsets[i] = offset;
    result.high_water = std::max(result.high_water, own.end);
  }
  return result;
}

}  // namespace tessera
