#include "runtime/cpu/permute.h"

#include <algorithm>
#include <cstring>

namespace tessera::cpu {
namespace {

struct Dim {
  std::int64_t size, strided, dense;
};

// Drops sizes of 1 and joins dimensions that step alike on both sides.
std::vector<Dim> collapsed(const std::vector<std::int64_t>& shape,
                           const std::vector<std::int64_t>& strides) {
  std::vector<Dim> dims;
  std::int64_t dense = 1;
  for (std::size_t i = shape.size(); i-- > 0;) {
    if (shape[i] != 1) {
      if (!dims.empty() && strides[i] == dims.back().strided * dims.back().size) {
        dims.back().size *= shape[i];
      } else {
        dims.push_back({shape[i], strides[i], dense});
      }
    }
    dense *= shape[i];
  }
  std::ranges::reverse(dims);
  if (dims.empty()) dims.push_back({1, 1, 1});
  return dims;
}

// One row, or a tile of the two dimensions that are fastest on either side, so that both are walked
// in cache lines.
template <class T, bool kGather>
void copy_dims(const std::vector<Dim>& dims, std::size_t d, T* strided, T* dense) {
  const Dim& dim = dims[d];
  // By memcpy: a weight may lie anywhere in its file, so the strided side need not be aligned.
  const auto move = [](T* s, T* t) { std::memcpy(kGather ? t : s, kGather ? s : t, sizeof(T)); };
  if (d + 1 == dims.size()) {
    if (dim.strided == 1) {
      std::memcpy(kGather ? dense : strided, kGather ? strided : dense,
                  static_cast<std::size_t>(dim.size) * sizeof(T));
      return;
    }
    for (std::int64_t i = 0; i < dim.size; ++i) move(strided + i * dim.strided, dense + i);
    return;
  }
  if (d + 2 == dims.size() && dim.strided == 1) {
    const Dim& inner = dims[d + 1];
    constexpr std::int64_t kTile = 16;
    for (std::int64_t j0 = 0; j0 < inner.size; j0 += kTile) {
      const std::int64_t j1 = std::min(inner.size, j0 + kTile);
      for (std::int64_t i = 0; i < dim.size; ++i) {
        for (std::int64_t j = j0; j < j1; ++j)
          move(strided + i + j * inner.strided, dense + i * dim.dense + j);
      }
    }
    return;
  }
  for (std::int64_t i = 0; i < dim.size; ++i)
    copy_dims<T, kGather>(dims, d + 1, strided + i * dim.strided, dense + i * dim.dense);
}

template <class T, bool kGather>
void run(const std::vector<std::int64_t>& shape, const std::vector<std::int64_t>& strides,
         void* strided, void* dense) {
  if (std::ranges::find(shape, 0) != shape.end()) return;
  copy_dims<T, kGather>(collapsed(shape, strides), 0, static_cast<T*>(strided),
                        static_cast<T*>(dense));
}

template <bool kGather>
void by_size(const std::vector<std::int64_t>& shape, const std::vector<std::int64_t>& strides,
             void* strided, void* dense, std::size_t bytes) {
  switch (bytes) {
    case 1:
      return run<std::uint8_t, kGather>(shape, strides, strided, dense);
    case 2:
      return run<std::uint16_t, kGather>(shape, strides, strided, dense);
    case 4:
      return run<std::uint32_t, kGather>(shape, strides, strided, dense);
    default:
      return run<std::uint64_t, kGather>(shape, strides, strided, dense);
  }
}

}  // namespace

void copy_strided(const void* src, const std::vector<std::int64_t>& shape,
                  const std::vector<std::int64_t>& strides, void* dst, std::size_t element_bytes) {
  by_size<true>(shape, strides, const_cast<void*>(src), dst, element_bytes);
}

void scatter_strided(const void* src, const std::vector<std::int64_t>& shape,
                     const std::vector<std::int64_t>& strides, void* dst,
                     std::size_t element_bytes) {
  by_size<false>(shape, strides, dst, const_cast<void*>(src), element_bytes);
}

}  // namespace tessera::cpu
