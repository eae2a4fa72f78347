#include "ir/base/type.h"

#include <algorithm>

#include "ir/base/text.h"

namespace tessera {
namespace {
constexpr std::array<std::string_view, 4> kReduceNames{"sum", "max", "min", "prod"};
}

std::string_view name(ReduceOp op) { return kReduceNames[static_cast<std::size_t>(op)]; }

std::optional<ReduceOp> reduce_op_named(std::string_view text) {
  for (std::size_t i = 0; i < kReduceNames.size(); ++i) {
    if (kReduceNames[i] == text) return static_cast<ReduceOp>(i);
  }
  return std::nullopt;
}

bool Type::is_cut() const {
  return std::ranges::any_of(cuts, [](const Axes& axes) { return !axes.empty(); });
}

bool Type::is_sharded() const { return is_cut() || !partial.axes.empty(); }

Axes Type::used_axes() const {
  Axes used;
  for (const Axes& axes : cuts) used = concatenated(std::move(used), axes);
  return concatenated(std::move(used), partial.axes);
}

Shape local_shape(const Type& type, const Grid& grid, const Coordinates& coordinates) {
  Shape local(type.rank());
  for (std::size_t i = 0; i < type.rank(); ++i) {
    local[i] = local_extent(type.shape[i], type.cuts[i], grid, coordinates).size;
  }
  return local;
}

Shape local_offsets(const Type& type, const Grid& grid, const Coordinates& coordinates) {
  Shape offsets(type.rank());
  for (std::size_t i = 0; i < type.rank(); ++i) {
    offsets[i] = local_extent(type.shape[i], type.cuts[i], grid, coordinates).start;
  }
  return offsets;
}

Shape largest_local_shape(const Type& type, const Grid& grid) {
  Shape local(type.rank());
  for (std::size_t i = 0; i < type.rank(); ++i) {
    local[i] = largest_local_size(type.shape[i], type.cuts[i], grid);
  }
  return local;
}

std::int64_t largest_local_bytes(const Type& type, const Grid& grid) {
  auto bytes = static_cast<std::int64_t>(byte_size(type.dtype));
  for (std::size_t i = 0; i < type.rank(); ++i)
    bytes *= largest_local_size(type.shape[i], type.cuts[i], grid);
  return bytes;
}

std::string to_text(const Type& type, const Grid& grid) {
  std::string text = str(name(type.dtype), "[");
  for (std::size_t i = 0; i < type.rank(); ++i) {
    if (i > 0) text += ", ";
    text += str(type.shape[i]);
    if (!type.cuts[i].empty()) text += str("{", grid.text(type.cuts[i]), "}");
  }
  text += "]";
  if (!type.partial.axes.empty()) {
    text += str(" partial(", name(type.partial.op), ": ", grid.text(type.partial.axes), ")");
  }
  return text;
}

}  // namespace tessera
