// Movement: elements keep their values and change their places.
#include <algorithm>
#include <cstring>

#include "runtime/cpu/dispatch.h"
#include "runtime/cpu/elementwise_block.h"
#include "runtime/cpu/kernel_list.h"
#include "runtime/cpu/permute.h"

namespace tessera::cpu {
namespace {

std::size_t dim_of(const KernelCall& call) {
  return static_cast<std::size_t>(call.attrs->integer("dim"));
}

// Copies `rows` rows of `bytes` bytes each between two strided places.
void copy_rows(std::byte* to, std::size_t to_step, const std::byte* from, std::size_t from_step,
               std::size_t bytes, std::int64_t rows) {
  for (std::int64_t r = 0; r < rows && bytes > 0; ++r) {
    std::memcpy(to + static_cast<std::size_t>(r) * to_step,
                from + static_cast<std::size_t>(r) * from_step, bytes);
  }
}

}  // namespace

void reshape_kernel(const KernelCall& call) {
  const TensorArg& operand = call.operands[0];
  if (operand.data == call.results[0].data || operand.size() == 0) return;
  std::memmove(call.results[0].data, operand.data,
               static_cast<std::size_t>(operand.size()) * byte_size(operand.dtype));
}

void transpose_kernel(const KernelCall& call) {
  const auto dense = row_major_strides(call.operands[0].shape);
  std::vector<std::int64_t> strides;
  for (std::int64_t dim : call.attrs->ints("perm"))
    strides.push_back(dense[static_cast<std::size_t>(dim)]);
  copy_strided(call.operands[0].data, call.results[0].shape, strides, call.results[0].data,
               byte_size(call.results[0].dtype));
}

void slice_kernel(const KernelCall& call) {
  const TensorArg& operand = call.operands[0];
  const TensorArg& result = call.results[0];
  if (result.size() == 0) return;
  auto strides = row_major_strides(operand.shape);
  const std::size_t dim = dim_of(call);
  const std::size_t bytes = byte_size(operand.dtype);
  const std::byte* first =
      operand.data + static_cast<std::size_t>(call.attrs->integer("start") * strides[dim]) * bytes;
  strides[dim] *= call.attrs->integer("step");
  copy_strided(first, result.shape, strides, result.data, bytes);
}

void pad_kernel(const KernelCall& call) {
  const TensorArg& operand = call.operands[0];
  const TensorArg& result = call.results[0];
  const std::size_t bytes = byte_size(result.dtype);
  const double value = call.attrs->number("value");
  std::uint64_t bits = 0;
  cast_block(DType::F64, result.dtype, &value, &bits, 1);
  with_size_of(result.dtype, [&](auto zero) {
    using T = decltype(zero);
    T element;
    std::memcpy(&element, &bits, sizeof element);
    std::fill(result.as<T>(), result.as<T>() + result.size(), element);
  });
  const Around a = around(operand.shape, dim_of(call));
  const std::size_t from = static_cast<std::size_t>(operand.shape[dim_of(call)] * a.inner) * bytes;
  const std::size_t to = static_cast<std::size_t>(result.shape[dim_of(call)] * a.inner) * bytes;
  copy_rows(result.data + static_cast<std::size_t>(call.attrs->integer("low") * a.inner) * bytes,
            to, operand.data, from, from, a.outer);
}

void concat_kernel(const KernelCall& call) {
  const TensorArg& result = call.results[0];
  const std::size_t dim = dim_of(call);
  const Around a = around(result.shape, dim);
  const std::size_t bytes = byte_size(result.dtype);
  const std::size_t step = static_cast<std::size_t>(result.shape[dim] * a.inner) * bytes;
  std::byte* to = result.data;
  for (const TensorArg& operand : call.operands) {
    const std::size_t row = static_cast<std::size_t>(operand.shape[dim] * a.inner) * bytes;
    copy_rows(to, step, operand.data, row, row, a.outer);
    to += row;
  }
}

}  // namespace tessera::cpu
