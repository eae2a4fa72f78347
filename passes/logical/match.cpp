#include "passes/logical/match.h"

#include <algorithm>
#include <cmath>

#include "ir/base/reshape_groups.h"

namespace tessera::match {
namespace {

Shape without_units(Shape shape) {
  std::erase(shape, 1);
  return shape;
}

}  // namespace

Value* behind_units(Value* value) {
  while (value->def != nullptr && value->def->kind == OpKind::Reshape &&
         without_units(value->type.shape) == without_units(value->def->operand(0)->type.shape)) {
    value = value->def->operand(0);
  }
  return value;
}

Op* op_of(Value* value, OpKind kind) {
  Op* op = behind_units(value)->def;
  return op != nullptr && op->kind == kind ? op : nullptr;
}

std::optional<Scaled> scaled(const Module& module, Value* value) {
  Op* op = behind_units(value)->def;
  if (op == nullptr) return std::nullopt;
  if (op->kind == OpKind::Neg) return Scaled{op->operand(0), -1.0};
  if (op->kind == OpKind::Div) {
    const auto divisor = splat_of(module, op->operand(1));
    if (divisor && *divisor != 0) return Scaled{op->operand(0), 1.0 / *divisor};
  }
  if (op->kind != OpKind::Mul) return std::nullopt;
  for (std::size_t i : {0, 1}) {
    if (const auto factor = splat_of(module, op->operand(i)))
      return Scaled{op->operand(1 - i), *factor};
  }
  return std::nullopt;
}

Scaled all_scaled(const Module& module, Value* value) {
  Scaled total{value, 1.0};
  while (const auto step = scaled(module, total.value))
    total = {step->value, total.factor * step->factor};
  return total;
}

std::optional<Scaled> shifted(const Module& module, Value* value) {
  Op* op = behind_units(value)->def;
  if (op == nullptr || (op->kind != OpKind::Add && op->kind != OpKind::Sub)) return std::nullopt;
  if (const auto shift = splat_of(module, op->operand(1))) {
    return Scaled{op->operand(0), op->kind == OpKind::Add ? *shift : -*shift};
  }
  if (op->kind == OpKind::Sub) return std::nullopt;
  if (const auto shift = splat_of(module, op->operand(0))) return Scaled{op->operand(1), *shift};
  return std::nullopt;
}

bool near(double a, double b) {
  return std::fabs(a - b) <= 1e-6 * std::max(std::fabs(a), std::fabs(b));
}

Value* per_row(Value* value) {
  Op* op = op_of(value, OpKind::Broadcast);
  if (op == nullptr) return nullptr;
  const Ints& dims = op->attrs.ints("dims");
  const auto last = static_cast<std::int64_t>(op->result()->type.rank()) - 1;
  if (std::ranges::find(dims, last) != dims.end()) return nullptr;
  const Shape rows(op->result()->type.shape.begin(), op->result()->type.shape.end() - 1);
  return without_units(op->operand(0)->type.shape) == without_units(rows) ? op->operand(0)
                                                                          : nullptr;
}

Value* per_column(Value* value) {
  Op* op = op_of(value, OpKind::Broadcast);
  if (op == nullptr || op->operand(0)->type.rank() != 1) return nullptr;
  const auto last = static_cast<std::int64_t>(op->result()->type.rank()) - 1;
  return op->attrs.ints("dims")[0] == last ? op->operand(0) : nullptr;
}

Value* row_mean_of(const Module& module, Value* value) {
  const auto mean = scaled(module, value);
  Op* sum = mean ? op_of(mean->value, OpKind::ReduceSum) : nullptr;
  if (sum == nullptr) return nullptr;
  Value* x = sum->operand(0);
  const auto last = static_cast<std::int64_t>(x->type.rank()) - 1;
  if (sum->attrs.ints("dims") != Ints{last}) return nullptr;
  return near(mean->factor, 1.0 / static_cast<double>(x->type.shape.back())) ? x : nullptr;
}

Value* squared(const Module& module, Value* value) {
  if (Op* pow = op_of(value, OpKind::Pow)) {
    const auto exponent = splat_of(module, pow->operand(1));
    return exponent && *exponent == 2.0 ? pow->operand(0) : nullptr;
  }
  Op* mul = op_of(value, OpKind::Mul);
  return mul != nullptr && mul->operand(0) == mul->operand(1) ? mul->operand(0) : nullptr;
}

Product product(const Module& module, Value* value) {
  if (const auto splat = splat_of(module, value)) return {{}, *splat};
  if (const auto step = scaled(module, value)) {
    Product inner = product(module, step->value);
    inner.constant *= step->factor;
    return inner;
  }
  Op* mul = op_of(value, OpKind::Mul);
  if (mul == nullptr) return {{behind_units(value)}, 1};
  Product left = product(module, mul->operand(0));
  const Product right = product(module, mul->operand(1));
  left.factors.insert(left.factors.end(), right.factors.begin(), right.factors.end());
  left.constant *= right.constant;
  return left;
}

}  // namespace tessera::match
