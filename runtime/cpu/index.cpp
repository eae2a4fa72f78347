// Reads and writes through indices. Ids are global; the table's offsets say which of them this rank
// holds.
#include <algorithm>
#include <cstring>

#include "runtime/cpu/dispatch.h"
#include "runtime/cpu/kernel_list.h"

namespace tessera::cpu {
namespace {

std::int64_t id_at(const TensorArg& ids, std::int64_t i) {
  return ids.dtype == DType::I64 ? ids.as<std::int64_t>()[i] : ids.as<std::int32_t>()[i];
}

void check_index_dtype(OpKind kind, const TensorArg& ids) {
  with_index(ids.dtype, kind, [](auto) {});
}

// Negative indices count from the end, as in ONNX.
std::int64_t normalised(std::int64_t id, std::int64_t size, OpKind kind) {
  const std::int64_t at = id < 0 ? id + size : id;
  if (at < 0 || at >= size) {
    throw CompileError(
        "", str(mnemonic(kind), ": index ", id, " is out of range for a dimension of size ", size));
  }
  return at;
}

// Where an id of a cut dimension lies in the local part; outside of [0, local size) if elsewhere.
std::int64_t local_place(std::int64_t id, const TensorArg& table, std::size_t dim, OpKind kind) {
  if (id < 0 || id >= table.global[dim]) {
    throw CompileError("", str(mnemonic(kind), ": index ", id,
                               " is out of range for a dimension of size ", table.global[dim]));
  }
  return id - table.offsets[dim];
}

template <class T>
void scatter_add(const KernelCall& call) {
  const TensorArg& ids = call.operands[0];
  const TensorArg& result = call.results[0];
  const auto dim = static_cast<std::size_t>(call.attrs->integer("dim"));
  const Around a = around(result.shape, dim);
  const std::int64_t count = ids.size();
  const T* updates = call.operands[1].as<T>();
  T* out = result.as<T>();
  std::fill(out, out + result.size(), T(0));
  for (std::int64_t o = 0; o < a.outer; ++o) {
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t at = local_place(id_at(ids, i), result, dim, call.kind);
      if (at < 0 || at >= a.size) continue;
      T* target = out + (o * a.size + at) * a.inner;
      const T* source = updates + (o * count + i) * a.inner;
      for (std::int64_t j = 0; j < a.inner; ++j) target[j] += source[j];
    }
  }
}

// Offset of element `flat` of `shape` in a tensor of row-major `strides`, with the coordinate along
// `dim` replaced.
std::int64_t redirected(std::int64_t flat, const Shape& shape,
                        const std::vector<std::int64_t>& strides, std::size_t dim,
                        std::int64_t at) {
  std::int64_t offset = 0;
  for (std::size_t d = shape.size(); d-- > 0;) {
    offset += (d == dim ? at : flat % shape[d]) * strides[d];
    flat /= shape[d];
  }
  return offset;
}

// The tuple of indices `row` points at, as an element offset into `shape` from dimension `first`.
std::int64_t tuple_offset(const TensorArg& indices, std::int64_t row, const TensorArg& data,
                          std::size_t first, OpKind kind) {
  const std::int64_t width = indices.shape.back();
  const auto strides = row_major_strides(data.shape);
  std::int64_t offset = 0;
  for (std::int64_t j = 0; j < width; ++j) {
    const std::size_t d = first + static_cast<std::size_t>(j);
    offset += normalised(id_at(indices, row * width + j), data.shape[d], kind) * strides[d];
  }
  return offset;
}

}  // namespace

void gather_kernel(const KernelCall& call) {
  const TensorArg& table = call.operands[0];
  const TensorArg& ids = call.operands[1];
  check_index_dtype(call.kind, ids);
  const auto dim = static_cast<std::size_t>(call.attrs->integer("dim"));
  const Around a = around(table.shape, dim);
  const std::size_t bytes = static_cast<std::size_t>(a.inner) * byte_size(table.dtype);
  const std::int64_t count = ids.size();
  for (std::int64_t o = 0; o < a.outer; ++o) {
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t at = local_place(id_at(ids, i), table, dim, call.kind);
      std::byte* target = call.results[0].data + static_cast<std::size_t>(o * count + i) * bytes;
      if (at >= 0 && at < a.size) {
        std::memcpy(target, table.data + static_cast<std::size_t>(o * a.size + at) * bytes, bytes);
      } else {
        std::memset(target, 0, bytes);
      }
    }
  }
}

void scatter_add_kernel(const KernelCall& call) {
  check_index_dtype(call.kind, call.operands[0]);
  with_number(call.operands[1].dtype, call.kind,
              [&](auto zero) { scatter_add<decltype(zero)>(call); });
}

void gather_elements_kernel(const KernelCall& call) {
  const TensorArg& data = call.operands[0];
  const TensorArg& ids = call.operands[1];
  check_index_dtype(call.kind, ids);
  const auto dim = static_cast<std::size_t>(call.attrs->integer("dim"));
  const auto strides = row_major_strides(data.shape);
  const std::size_t bytes = byte_size(data.dtype);
  for (std::int64_t i = 0; i < ids.size(); ++i) {
    const std::int64_t at = normalised(id_at(ids, i), data.shape[dim], call.kind);
    const std::int64_t from = redirected(i, ids.shape, strides, dim, at);
    std::memcpy(call.results[0].data + static_cast<std::size_t>(i) * bytes,
                data.data + static_cast<std::size_t>(from) * bytes, bytes);
  }
}

namespace {

void write_element(const KernelCall& call, const TensorArg& updates, std::int64_t from,
                   std::int64_t to) {
  const TensorArg& result = call.results[0];
  const std::size_t bytes = byte_size(result.dtype);
  if (call.attrs->flag("add")) {
    with_number(result.dtype, call.kind, [&](auto zero) {
      using T = decltype(zero);
      result.as<T>()[to] += updates.as<T>()[from];
    });
  } else {
    std::memcpy(result.data + static_cast<std::size_t>(to) * bytes,
                updates.data + static_cast<std::size_t>(from) * bytes, bytes);
  }
}

void copy_data(const KernelCall& call) {
  const TensorArg& data = call.operands[0];
  if (data.size() > 0)
    std::memcpy(call.results[0].data, data.data,
                static_cast<std::size_t>(data.size()) * byte_size(data.dtype));
}

}  // namespace

void scatter_elements_kernel(const KernelCall& call) {
  const TensorArg& ids = call.operands[1];
  check_index_dtype(call.kind, ids);
  copy_data(call);
  const auto dim = static_cast<std::size_t>(call.attrs->integer("dim"));
  const TensorArg& result = call.results[0];
  const auto strides = row_major_strides(result.shape);
  for (std::int64_t i = 0; i < ids.size(); ++i) {
    const std::int64_t at = normalised(id_at(ids, i), result.shape[dim], call.kind);
    write_element(call, call.operands[2], i, redirected(i, ids.shape, strides, dim, at));
  }
}

void gather_nd_kernel(const KernelCall& call) {
  const TensorArg& data = call.operands[0];
  const TensorArg& indices = call.operands[1];
  check_index_dtype(call.kind, indices);
  const auto batch = static_cast<std::size_t>(call.attrs->integer("batch_dims"));
  const std::int64_t width = indices.shape.back();
  std::int64_t batches = 1, piece = 1, item = 1;
  for (std::size_t d = 0; d < data.shape.size(); ++d) {
    (d < batch ? batches : item) *= data.shape[d];
    if (d >= batch + static_cast<std::size_t>(width)) piece *= data.shape[d];
  }
  const std::int64_t rows = width == 0 ? batches : indices.size() / width;
  const std::size_t bytes = static_cast<std::size_t>(piece) * byte_size(data.dtype);
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::int64_t base = batches == 0 ? 0 : row / (rows / batches) * item;
    const std::int64_t from = base + tuple_offset(indices, row, data, batch, call.kind);
    std::memcpy(call.results[0].data + static_cast<std::size_t>(row) * bytes,
                data.data + static_cast<std::size_t>(from) * byte_size(data.dtype), bytes);
  }
}

void scatter_nd_kernel(const KernelCall& call) {
  const TensorArg& indices = call.operands[1];
  check_index_dtype(call.kind, indices);
  copy_data(call);
  const TensorArg& result = call.results[0];
  const std::int64_t width = indices.shape.back();
  std::int64_t piece = 1;
  for (std::size_t d = static_cast<std::size_t>(width); d < result.shape.size(); ++d)
    piece *= result.shape[d];
  std::int64_t rows = 1;
  for (std::size_t d = 0; d + 1 < indices.shape.size(); ++d) rows *= indices.shape[d];
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::int64_t to = tuple_offset(indices, row, result, 0, call.kind);
    for (std::int64_t j = 0; j < piece; ++j)
      write_element(call, call.operands[2], row * piece + j, to + j);
  }
}

}  // namespace tessera::cpu
