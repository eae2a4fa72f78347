// Evaluates ops whose operands are all constants, and drops ops that change nothing:
//
//   %c = add %two, %three            =>   %c = constant 5
//   %y = mul %x, (fill 1.0)          =>   %x
//   %y = transpose (transpose %x)    =>   %x
//
// Results above a size limit are left alone (a fill or broadcast costs nothing until it is needed),
// and so are fills themselves. One meaning of every op: runtime/cpu/evaluate.h.
#include <algorithm>

#include "ir/builder.h"
#include "ir/op_def.h"
#include "passes/pass.h"
#include "runtime/cpu/evaluate.h"

namespace tessera {
namespace {

constexpr std::int64_t kLargestResult = 1 << 22;

bool is_neutral(const Module& module, const Value* value, double neutral) {
  const auto splat = splat_of(module, value);
  return splat && *splat == neutral;
}

// The value that `op` equals, or null.
Value* simplified(const Module& module, const Op& op) {
  Value* x = op.operands.empty() ? nullptr : op.operand(0);
  switch (op.kind) {
    case OpKind::Add:
      if (is_neutral(module, x, 0)) return op.operand(1);
      return is_neutral(module, op.operand(1), 0) ? x : nullptr;
    case OpKind::Mul:
      if (is_neutral(module, x, 1)) return op.operand(1);
      return is_neutral(module, op.operand(1), 1) ? x : nullptr;
    case OpKind::Sub:
      return is_neutral(module, op.operand(1), 0) ? x : nullptr;
    case OpKind::Div:
    case OpKind::Pow:
      return is_neutral(module, op.operand(1), 1) ? x : nullptr;
    case OpKind::Select:
      if (const auto condition = splat_of(module, x)) return op.operand(*condition != 0 ? 1 : 2);
      return op.operand(1) == op.operand(2) ? op.operand(1) : nullptr;
    case OpKind::Cast:
    case OpKind::Reshape:
    case OpKind::Broadcast:
      return x->type == op.result()->type ? x : nullptr;
    case OpKind::Transpose:
      return std::ranges::is_sorted(op.attrs.ints("perm")) ? x : nullptr;
    default:
      return nullptr;
  }
}

// reshape(reshape(x)), transpose(transpose(x)), broadcast(broadcast(x)) read x directly.
bool merge_movement(Op& op) {
  if (op.operands.empty() || op.operand(0)->def == nullptr || op.operand(0)->def->kind != op.kind)
    return false;
  const Op& inner = *op.operand(0)->def;
  Func& func = *op.func;
  if (op.kind == OpKind::Reshape) {
    func.set_operand(&op, 0, inner.operand(0));
    return true;
  }
  if (op.kind == OpKind::Transpose) {
    Ints perm;
    for (std::int64_t dim : op.attrs.ints("perm"))
      perm.push_back(inner.attrs.ints("perm")[static_cast<std::size_t>(dim)]);
    op.attrs.set("perm", perm);
    func.set_operand(&op, 0, inner.operand(0));
    return true;
  }
  if (op.kind == OpKind::Broadcast) {
    Ints dims;
    for (std::int64_t dim : inner.attrs.ints("dims"))
      dims.push_back(op.attrs.ints("dims")[static_cast<std::size_t>(dim)]);
    op.attrs.set("dims", dims);
    func.set_operand(&op, 0, inner.operand(0));
    return true;
  }
  return false;
}

// Movement of a fill is a fill.
bool move_fill(Module& module, Op& op) {
  const bool moves = op.kind == OpKind::Broadcast || op.kind == OpKind::Reshape ||
                     op.kind == OpKind::Transpose || op.kind == OpKind::Slice;
  if (!moves || op.operand(0)->def == nullptr || op.operand(0)->def->kind != OpKind::Fill)
    return false;
  Builder builder(module, op);
  Value* fill = builder.fill(op.operand(0)->def->attrs.number("value"), op.result()->type.dtype,
                             op.result()->type.shape);
  op.func->replace_all_uses(op.result(), fill);
  op.func->erase(&op);
  return true;
}

bool evaluate_op(Module& module, Op& op) {
  if (op.operands.empty() || op.kind == OpKind::Random || op.kind == OpKind::Broadcast)
    return false;
  std::vector<Tensor> operands;
  for (const Value* operand : op.operands) {
    if (operand->def == nullptr || elements(operand->type.shape) > kLargestResult) return false;
    if (operand->def->kind == OpKind::Fill) {
      const Type type = operand->type;
      operands.push_back(evaluate(OpKind::Fill, operand->def->attrs, {}, {&type, 1})[0]);
    } else if (const Tensor* tensor = constant_of(module, operand)) {
      operands.push_back(*tensor);
    } else {
      return false;
    }
  }
  std::vector<Type> types;
  for (const auto& result : op.results) {
    if (elements(result->type.shape) > kLargestResult) return false;
    types.push_back(result->type);
  }
  const std::vector<Tensor> values = evaluate(op.kind, op.attrs, operands, types);
  Builder builder(module, op);
  for (std::size_t i = 0; i < values.size(); ++i) {
    builder.set_name(op.result(i)->name);
    op.func->replace_all_uses(op.result(i), builder.constant(values[i]));
  }
  op.func->erase(&op);
  return true;
}

// A constant of equal elements is a fill.
bool constant_to_fill(Module& module, Op& op) {
  if (op.kind != OpKind::Constant || op.result()->type.rank() == 0) return false;
  const auto splat = splat_of(module, op.result());
  if (!splat || (op.result()->type.dtype == DType::I64 && (*splat > 9e15 || *splat < -9e15)))
    return false;
  Builder builder(module, op);
  op.func->replace_all_uses(op.result(),
                            builder.fill(*splat, op.result()->type.dtype, op.result()->type.shape));
  op.func->erase(&op);
  return true;
}

bool fold_op(Module& module, Op& op) {
  if (Value* same = simplified(module, op)) {
    op.func->replace_all_uses(op.result(), same);
    op.func->erase(&op);
    return true;
  }
  return constant_to_fill(module, op) || move_fill(module, op) || evaluate_op(module, op);
}

}  // namespace

bool fold_constants(Module& module, PassContext&) {
  bool changed = false;
  for (const auto& func : module.funcs()) {
    for (auto it = func->ops().begin(); it != func->ops().end();) {
      Op& op = **it++;
      while (merge_movement(op)) changed = true;
      changed |= fold_op(module, op);
    }
  }
  return changed;
}

}  // namespace tessera
