// Sizes of a tensor's dimensions, always 64-bit; products are checked.
#pragma once
#include <cstdint>
#include <numeric>
#include <vector>

#include "ir/base/check.h"

namespace tessera {

using Shape = std::vector<std::int64_t>;

// Count of elements; 1 for rank 0. Throws InternalError when it does not fit 63 bits: the frontend
// and the parsers refuse such sizes before anyone multiplies them (see checked_elements).
inline std::int64_t elements(const Shape& shape) {
  std::int64_t count = 1;
  for (std::int64_t size : shape) {
    TESSERA_CHECK(!__builtin_mul_overflow(count, size, &count), "element count overflows 64 bits");
  }
  return count;
}

// Whether every size is >= 0 and elements * 8 bytes fits 63 bits, also for the non-zero part of the
// product.
inline bool sizes_are_sane(const Shape& shape) {
  std::int64_t count = 8;
  for (std::int64_t size : shape) {
    if (size < 0) return false;
    if (__builtin_mul_overflow(count, size == 0 ? 1 : size, &count)) return false;
  }
  return true;
}

// Row-major strides, in elements.
inline std::vector<std::int64_t> row_major_strides(const Shape& shape) {
  std::vector<std::int64_t> strides(shape.size(), 1);
  for (std::size_t i = shape.size(); i-- > 1;) strides[i - 1] = strides[i] * shape[i];
  return strides;
}

// A tensor around one of its dimensions: [outer, size, inner].
struct Around {
  std::int64_t outer = 1, size = 1, inner = 1;
};
inline Around around(const Shape& shape, std::size_t dim) {
  Around a;
  for (std::size_t d = 0; d < shape.size(); ++d)
    (d < dim ? a.outer : d == dim ? a.size : a.inner) *= shape[d];
  return a;
}

}  // namespace tessera
