// Arena offsets from liveness: buffers whose lifetimes do not meet share bytes.
#pragma once
#include <cstdint>
#include <vector>

namespace tessera {

struct Lifetime {
  std::int64_t bytes = 0;
  int first = 0;  // step that writes it
  int last = 0;   // last step that reads it
};

struct Placement {
  std::vector<std::int64_t> offsets;  // from `base`, aligned
  std::int64_t high_water = 0;        // bytes after the last buffer
};

// Largest first, each at the lowest offset that is free for its whole life. Buffers of zero bytes
// get one byte.
Placement assign_buffers(const std::vector<Lifetime>& buffers, std::int64_t base,
                         std::int64_t alignment);

}  // namespace tessera
