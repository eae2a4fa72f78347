// A parameter as a strided window on its file tensor: slices, splits and permutations compose to
// strides, so that any rank's piece is read from, and whole values are written back to, the file's
// own layout.
#pragma once
#include "ir/base/tensor.h"
#include "ir/base/weights.h"

namespace tessera {

struct StridedView {
  std::int64_t offset = 0;            // elements into the file tensor
  Shape shape;                        // of the parameter
  std::vector<std::int64_t> strides;  // of each dimension, in elements of the file tensor
};

// Throws InternalError for a reshape that merges dimensions which do not lie together.
StridedView strided_view(const WeightSource& source);

// Copies the piece of `shape` at `start` of the parameter from the file tensor's bytes.
void read_piece(const std::byte* file_tensor, const StridedView& view, const Shape& start,
                const Shape& shape, DType dtype, std::byte* out);
// Writes a whole parameter into its places of a tensor in the file's layout.
void write_back(const Tensor& parameter, const StridedView& view, Tensor& file_tensor);

}  // namespace tessera
