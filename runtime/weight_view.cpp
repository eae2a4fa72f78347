#include "runtime/weight_view.h"

#include "ir/base/check.h"
#include "ir/base/reshape_groups.h"
#include "runtime/cpu/permute.h"

namespace tessera {
namespace {

StridedView reshaped(const StridedView& view, const Shape& shape) {
  StridedView result{view.offset, shape, std::vector<std::int64_t>(shape.size(), 1)};
  for (const ReshapeGroup& group : reshape_groups(view.shape, shape)) {
    if (group.from_begin == group.from_end) continue;  // a new dimension of size 1
    const std::int64_t inner = view.strides[group.from_end - 1];
    for (std::size_t d = group.from_end - 1; d-- > group.from_begin;) {
      TESSERA_CHECK(view.strides[d] == view.strides[d + 1] * view.shape[d + 1],
                    "a weight view merges dimensions that do not lie together");
    }
    std::int64_t stride = inner;
    for (std::size_t d = group.to_end; d-- > group.to_begin;) {
      result.strides[d] = stride;
      stride *= shape[d];
    }
  }
  return result;
}

}  // namespace

StridedView strided_view(const WeightSource& source) {
  StridedView view{0, source.shape, row_major_strides(source.shape)};
  for (const ViewStep& step : source.view) {
    switch (step.kind) {
      case ViewKind::Slice: {
        const auto dim = static_cast<std::size_t>(step.args[0]);
        view.offset += step.args[1] * view.strides[dim];
        view.shape[dim] = step.args[2] - step.args[1];
        break;
      }
      case ViewKind::Permute: {
        StridedView permuted{view.offset, {}, {}};
        for (std::int64_t dim : step.args) {
          permuted.shape.push_back(view.shape[static_cast<std::size_t>(dim)]);
          permuted.strides.push_back(view.strides[static_cast<std::size_t>(dim)]);
        }
        view = permuted;
        break;
      }
      case ViewKind::Reshape:
        view = reshaped(view, step.args);
        break;
    }
  }
  return view;
}

void read_piece(const std::byte* file_tensor, const StridedView& view, const Shape& start,
                const Shape& shape, DType dtype, std::byte* out) {
  std::int64_t at = view.offset;
  for (std::size_t d = 0; d < start.size(); ++d) at += start[d] * view.strides[d];
  cpu::copy_strided(file_tensor + static_cast<std::size_t>(at) * byte_size(dtype), shape,
                    view.strides, out, byte_size(dtype));
}

void write_back(const Tensor& parameter, const StridedView& view, Tensor& file_tensor) {
  const std::size_t bytes = byte_size(parameter.dtype());
  cpu::scatter_strided(parameter.data(), view.shape, view.strides,
                       file_tensor.mutable_data() + static_cast<std::size_t>(view.offset) * bytes,
                       bytes);
}

}  // namespace tessera
