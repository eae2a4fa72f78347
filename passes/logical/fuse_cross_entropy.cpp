// select(labels != ignore, -log_softmax(x)[ids], 0), ids = select(labels != ignore, labels, 0)
//                                                =>   cross_entropy %x, %labels ignore
//
// The loss of a row by its label, as exporters decompose it. The outer select may be written with
// the opposite condition. Left alone: rows that are picked along another dimension than the last
// one, other replacements than 0, log probabilities that come from elsewhere.
#include "passes/logical/fuse.h"
#include "passes/logical/match.h"

namespace tessera {
namespace {

using namespace match;

// select(labels != ignore, chosen, 0)
struct Counted {
  Value* labels = nullptr;
  Value* chosen = nullptr;
  double ignore = 0;
};

std::optional<Counted> counted(const Module& module, Value* value) {
  const Op* select = op_of(value, OpKind::Select);
  if (select == nullptr) return std::nullopt;
  const Op* condition = select->operand(0)->def;
  if (condition == nullptr) return std::nullopt;
  const bool keeps = condition->kind == OpKind::NotEqual;
  if (!keeps && condition->kind != OpKind::Equal) return std::nullopt;
  const auto zero = splat_of(module, select->operand(keeps ? 2 : 1));
  const auto ignore = splat_of(module, condition->operand(1));
  if (!zero || *zero != 0 || !ignore) return std::nullopt;
  return Counted{condition->operand(0), select->operand(keeps ? 1 : 2), *ignore};
}

}  // namespace

bool fuse_cross_entropy(Module& module, Op& op) {
  if (op.kind != OpKind::Select) return false;
  const auto loss = counted(module, op.result());
  const Op* negated = loss ? op_of(loss->chosen, OpKind::Neg) : nullptr;
  const Op* picked =
      negated != nullptr ? op_of(negated->operand(0), OpKind::GatherElements) : nullptr;
  if (picked == nullptr) return false;
  const auto ids = counted(module, picked->operand(1));
  if (!ids || ids->ignore != loss->ignore ||
      behind_units(ids->chosen) != behind_units(loss->labels) ||
      behind_units(ids->labels) != behind_units(loss->labels))
    return false;
  Op* softmax = picked->operand(0)->def;
  if (softmax == nullptr || softmax->kind != OpKind::LogSoftmax) return false;
  const Shape& scores = softmax->result()->type.shape;
  Shape rows(scores.begin(), scores.end() - 1);
  Shape unit = rows;
  unit.push_back(1);
  const bool last = picked->attrs.integer("dim") + 1 == static_cast<std::int64_t>(scores.size());
  if (!last || picked->result()->type.shape != unit) return false;
  Builder b(module, op);
  b.set_name(op.result()->name);
  Value* labels = b.reshape(loss->labels, rows);
  Value* fused = b.emit_all(OpKind::CrossEntropy, {softmax->operand(0), labels},
                            {{"ignore", static_cast<std::int64_t>(loss->ignore)}})[0];
  op.func->replace_all_uses(op.result(), b.reshape(fused, op.result()->type.shape));
  return true;
}

}  // namespace tessera
