// Small matchers for fuse_patterns: they look through reshapes that only add or drop dimensions of
// size 1, and read constants as splats.
#pragma once
#include <optional>
#include <vector>

#include "ir/builder.h"

namespace tessera::match {

// The value behind reshapes that only add or drop dimensions of size 1.
Value* behind_units(Value* value);
// The defining op if it is of `kind` (behind unit reshapes), else null.
Op* op_of(Value* value, OpKind kind);

// The two operands of a commutative op of `kind`, in the order that `first` accepts its operand;
// nothing if neither.
template <class F>
std::optional<std::pair<Value*, Value*>> split(Value* value, OpKind kind, F first) {
  Op* op = op_of(value, kind);
  if (op == nullptr) return std::nullopt;
  for (std::size_t i : {0, 1}) {
    if (first(op->operand(i))) return std::pair{op->operand(i), op->operand(1 - i)};
  }
  return std::nullopt;
}

// x and c of x * c, c * x, x / c' (c = 1/c'), -x: a product with a splat constant.
struct Scaled {
  Value* value;
  double factor;
};
std::optional<Scaled> scaled(const Module& module, Value* value);
// The same through a chain of such ops; factor 1 if there is none.
Scaled all_scaled(const Module& module, Value* value);

// x and c of x + c, c + x, x - c.
std::optional<Scaled> shifted(const Module& module, Value* value);

bool near(double a, double b);  // equal up to f32 rounding

// The operand of a broadcast from leading dimensions (per-row value) to the shape of the result:
// [...] -> [..., J].
Value* per_row(Value* value);
// The vector of a broadcast along the last dimension: [J] -> [..., J].
Value* per_column(Value* value);
// x when `value` is the mean of x over its last dimension.
Value* row_mean_of(const Module& module, Value* value);
// x when `value` is x squared.
Value* squared(const Module& module, Value* value);

// Flattens a tree of products: non-constant factors, and the product of the constants.
struct Product {
  std::vector<Value*> factors;
  double constant = 1;
};
Product product(const Module& module, Value* value);

}  // namespace tessera::match
