// x * 0.5 * (1 + erf(x / sqrt2))                               =>   gelu %x
// x * 0.5 * (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))          =>   gelu_tanh %x
// x * sigmoid(x)                                               =>   silu %x
//
// Factors in any order, constants merged in any way. Left alone: other constants, which are other
// functions.
#include <algorithm>

#include "passes/logical/fuse.h"
#include "passes/logical/match.h"

namespace tessera {
namespace {

using namespace match;

constexpr double kInverseSqrt2 = 0.70710678118654752440;
constexpr double kSqrt2OverPi = 0.79788456080286535588;

bool is_cube(const Module& module, Value* value, const Value* x) {
  if (Op* pow = op_of(value, OpKind::Pow)) {
    const auto exponent = splat_of(module, pow->operand(1));
    return exponent && *exponent == 3.0 && behind_units(pow->operand(0)) == x;
  }
  const Product p = product(module, value);
  return p.constant == 1.0 && p.factors.size() == 3 &&
         std::ranges::all_of(p.factors, [&](Value* f) { return f == x; });
}

// x + 0.044715 x^3, or x (1 + 0.044715 x^2)
bool is_cubic(const Module& module, Value* value, const Value* x) {
  Op* sum = op_of(value, OpKind::Add);
  if (sum == nullptr) return false;
  for (std::size_t i : {0, 1}) {
    if (behind_units(sum->operand(i)) != x) continue;
    const auto cube = scaled(module, sum->operand(1 - i));
    if (cube && near(cube->factor, 0.044715) && is_cube(module, cube->value, x)) return true;
    const Product p = product(module, sum->operand(1 - i));
    if (near(p.constant, 0.044715) && p.factors.size() == 3 &&
        std::ranges::all_of(p.factors, [&](Value* f) { return f == x; }))
      return true;
  }
  return false;
}

// The kind of gelu whose gate (1 + erf or tanh) `gate` is, for this x.
std::optional<OpKind> gate_kind(const Module& module, Value* gate, const Value* x) {
  const auto sum = shifted(module, gate);
  if (!sum || sum->factor != 1.0) return std::nullopt;
  if (Op* erf = op_of(sum->value, OpKind::Erf)) {
    const auto inner = scaled(module, erf->operand(0));
    if (inner && near(inner->factor, kInverseSqrt2) && behind_units(inner->value) == x)
      return OpKind::Gelu;
  }
  if (Op* tanh = op_of(sum->value, OpKind::Tanh)) {
    const auto inner = scaled(module, tanh->operand(0));
    if (inner && near(inner->factor, kSqrt2OverPi) && is_cubic(module, inner->value, x))
      return OpKind::GeluTanh;
  }
  return std::nullopt;
}

void replace(Module& module, Op& op, OpKind kind, Value* x) {
  Builder b(module, op);
  b.set_name(op.result()->name);
  op.func->replace_all_uses(op.result(), b.reshape(b.emit(kind, {x}), op.result()->type.shape));
}

}  // namespace

bool fuse_gelu(Module& module, Op& op) {
  if (op.kind != OpKind::Mul) return false;
  const Product p = product(module, op.result());
  if (p.factors.size() != 2 || !near(p.constant, 0.5)) return false;
  for (std::size_t i : {0, 1}) {
    if (const auto kind = gate_kind(module, p.factors[1 - i], p.factors[i])) {
      replace(module, op, *kind, p.factors[i]);
      return true;
    }
  }
  return false;
}

bool fuse_silu(Module& module, Op& op) {
  if (op.kind != OpKind::Mul) return false;
  for (std::size_t i : {0, 1}) {
    Op* sigmoid = op_of(op.operand(1 - i), OpKind::Sigmoid);
    if (sigmoid == nullptr || behind_units(sigmoid->operand(0)) != behind_units(op.operand(i)))
      continue;
    replace(module, op, OpKind::Silu, op.operand(i));
    return true;
  }
  return false;
}

}  // namespace tessera
