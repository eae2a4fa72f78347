// add(mul(normed, gamma), beta) with normed = (x - mean) / sqrt(var + eps)   =>   layer_norm %x,
// %gamma, %beta
//
// Mean and variance over the last dimension; division or multiplication by the reciprocal root.
// Left alone: statistics over several dimensions, gamma or beta that are not vectors of the last
// dimension.
#include "passes/logical/fuse.h"
#include "passes/logical/match.h"

namespace tessera {
namespace {

using namespace match;

struct Normed {
  Value* x;
  double eps;
};

// sqrt(mean(c^2) + eps)
std::optional<double> root_of_variance(const Module& module, Value* value, const Value* centred) {
  Op* root = op_of(value, OpKind::Sqrt);
  const auto sum = root == nullptr ? std::nullopt : shifted(module, root->operand(0));
  Value* square = sum ? row_mean_of(module, sum->value) : nullptr;
  Value* c = square == nullptr ? nullptr : squared(module, square);
  if (c == nullptr) return std::nullopt;
  // Exporters may compute x - mean twice.
  const bool same =
      c == centred ||
      (c->def != nullptr && centred->def != nullptr && c->def->kind == OpKind::Sub &&
       centred->def->kind == OpKind::Sub && c->def->operands == centred->def->operands);
  return same ? std::optional(sum->factor) : std::nullopt;
}

std::optional<Normed> as_normed(const Module& module, Value* value) {
  Op* op = behind_units(value)->def;
  if (op == nullptr || (op->kind != OpKind::Div && op->kind != OpKind::Mul)) return std::nullopt;
  for (std::size_t i : {0, 1}) {
    if (op->kind == OpKind::Div && i == 1) break;
    Value* centred = op->operand(i);
    Op* sub = centred->def;
    Value* row = per_row(op->operand(1 - i));
    if (sub == nullptr || sub->kind != OpKind::Sub || row == nullptr) continue;
    Value* mean = per_row(sub->operand(1));
    if (mean == nullptr || row_mean_of(module, mean) != sub->operand(0)) continue;
    Value* root = row;
    if (op->kind == OpKind::Mul) {
      Op* reciprocal = op_of(row, OpKind::Reciprocal);
      if (reciprocal == nullptr) continue;
      root = reciprocal->operand(0);
    }
    if (const auto eps = root_of_variance(module, root, centred))
      return Normed{sub->operand(0), *eps};
  }
  return std::nullopt;
}

}  // namespace

bool fuse_layer_norm(Module& module, Op& op) {
  if (op.kind != OpKind::Add) return false;
  const auto with_beta =
      split(op.result(), OpKind::Add, [](Value* v) { return per_column(v) != nullptr; });
  if (!with_beta) return false;
  const auto with_gamma =
      split(with_beta->second, OpKind::Mul, [](Value* v) { return per_column(v) != nullptr; });
  if (!with_gamma) return false;
  const auto normed = as_normed(module, with_gamma->second);
  if (!normed || normed->x->type.shape != op.result()->type.shape) return false;
  Builder b(module, op);
  b.set_name(op.result()->name);
  const auto results = b.emit_all(
      OpKind::LayerNorm, {normed->x, per_column(with_gamma->first), per_column(with_beta->first)},
      {{"eps", normed->eps}});
  op.func->replace_all_uses(op.result(), results[0]);
  return true;
}

}  // namespace tessera
