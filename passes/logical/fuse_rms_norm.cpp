// mul(gamma, x / sqrt(mean(x^2) + eps))   =>   rms_norm %x, %gamma
//
// The root is divided by, or multiplied as its reciprocal (reciprocal, rsqrt or 1 / root). Left
// alone: gamma that is not a vector of the last dimension.
#include "passes/logical/fuse.h"
#include "passes/logical/match.h"

namespace tessera {
namespace {

using namespace match;

// sqrt(mean(x^2) + eps) of this x
std::optional<double> root_mean_square(const Module& module, Value* value, OpKind kind,
                                       const Value* x) {
  Op* root = op_of(value, kind);
  const auto sum = root == nullptr ? std::nullopt : shifted(module, root->operand(0));
  Value* square = sum ? row_mean_of(module, sum->value) : nullptr;
  if (square == nullptr || squared(module, square) != x) return std::nullopt;
  return sum->factor;
}

std::optional<double> reciprocal_root(const Module& module, Value* value, const Value* x) {
  if (const auto eps = root_mean_square(module, value, OpKind::Rsqrt, x)) return eps;
  if (Op* reciprocal = op_of(value, OpKind::Reciprocal)) {
    return root_mean_square(module, reciprocal->operand(0), OpKind::Sqrt, x);
  }
  Op* division = op_of(value, OpKind::Div);
  if (division == nullptr) return std::nullopt;
  const auto one = splat_of(module, division->operand(0));
  return one && *one == 1.0 ? root_mean_square(module, division->operand(1), OpKind::Sqrt, x)
                            : std::nullopt;
}

}  // namespace

bool fuse_rms_norm(Module& module, Op& op) {
  if (op.kind != OpKind::Mul) return false;
  const auto with_gamma =
      split(op.result(), OpKind::Mul, [](Value* v) { return per_column(v) != nullptr; });
  if (!with_gamma) return false;
  Op* inner = behind_units(with_gamma->second)->def;
  if (inner == nullptr || (inner->kind != OpKind::Mul && inner->kind != OpKind::Div)) return false;
  for (std::size_t i : {0, 1}) {
    if (inner->kind == OpKind::Div && i == 1) break;
    Value* x = inner->operand(i);
    Value* row = per_row(inner->operand(1 - i));
    if (row == nullptr || x->type.shape != op.result()->type.shape) continue;
    const auto eps = inner->kind == OpKind::Div ? root_mean_square(module, row, OpKind::Sqrt, x)
                                                : reciprocal_root(module, row, x);
    if (!eps) continue;
    Builder b(module, op);
    b.set_name(op.result()->name);
    op.func->replace_all_uses(
        op.result(),
        b.emit_all(OpKind::RmsNorm, {x, per_column(with_gamma->first)}, {{"eps", *eps}})[0]);
    return true;
  }
  return false;
}

}  // namespace tessera
