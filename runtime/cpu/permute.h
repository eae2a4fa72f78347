// Copies a strided view into a dense tensor: transposes, and operands of einsums that BLAS cannot
// take as they lie.
#pragma once
#include <cstdint>
#include <vector>

namespace tessera::cpu {

// dst (dense, row-major, of `shape`) [i...] = src[sum i_d * strides_d]. Strides are in elements of
// `element_bytes`.
void copy_strided(const void* src, const std::vector<std::int64_t>& shape,
                  const std::vector<std::int64_t>& strides, void* dst, std::size_t element_bytes);
// The reverse: dst[sum i_d * strides_d] = src (dense) [i...].
void scatter_strided(const void* src, const std::vector<std::int64_t>& shape,
                     const std::vector<std::int64_t>& strides, void* dst,
                     std::size_t element_bytes);

}  // namespace tessera::cpu
