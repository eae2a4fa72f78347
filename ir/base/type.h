// The type of a value: dtype, the global size of each dimension with the axes that cut it, and the
// axes over which each device holds only an addend. Axes not named hold copies.
//
//   f32[64{data,z}, 512{y}] partial(sum: x)
#pragma once
#include <optional>
#include <string>

#include "ir/base/dtype.h"
#include "ir/base/sharding.h"

namespace tessera {

enum class ReduceOp : std::uint8_t { Sum, Max, Min, Prod };
std::string_view name(ReduceOp op);
std::optional<ReduceOp> reduce_op_named(std::string_view text);

struct Partial {
  ReduceOp op = ReduceOp::Sum;
  Axes axes;  // sorted; empty = not partial
  bool operator==(const Partial& other) const {
    return axes == other.axes && (axes.empty() || op == other.op);
  }
};

struct Type {
  DType dtype = DType::F32;
  Shape shape;             // global sizes, always
  std::vector<Axes> cuts;  // one list per dimension, major to minor
  Partial partial;

  Type() = default;
  Type(DType element, Shape sizes) : dtype(element), shape(std::move(sizes)), cuts(shape.size()) {}
  Type(DType element, Shape sizes, std::vector<Axes> axes, Partial addends = {})
      : dtype(element),
        shape(std::move(sizes)),
        cuts(std::move(axes)),
        partial(std::move(addends)) {}

  std::size_t rank() const { return shape.size(); }
  bool is_cut() const;      // some dimension is cut
  bool is_sharded() const;  // cut or partial
  Axes used_axes() const;   // cut axes in dimension order, then partial axes
  Type logical() const { return {dtype, shape}; }
  bool operator==(const Type&) const = default;
};

// What one rank holds: sizes and global offset of each dimension.
Shape local_shape(const Type& type, const Grid& grid, const Coordinates& coordinates);
Shape local_offsets(const Type& type, const Grid& grid, const Coordinates& coordinates);
// The largest local shape, the one at coordinate 0: what buffers are sized for.
Shape largest_local_shape(const Type& type, const Grid& grid);
std::int64_t largest_local_bytes(const Type& type, const Grid& grid);

std::string to_text(const Type& type, const Grid& grid);

}  // namespace tessera
