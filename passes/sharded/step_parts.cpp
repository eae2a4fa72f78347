#include "passes/sharded/step_parts.h"

#include <algorithm>

namespace tessera {

bool is_source(const Op* op) {
  if (op == nullptr) return false;
  return op->kind == OpKind::Fill || op->kind == OpKind::Iota || op->kind == OpKind::Constant ||
         (op->kind == OpKind::Broadcast && op->operand(0)->type.rank() == 0 &&
          op->operand(0)->type.partial.axes.empty());
}

Partial accumulated_partial(const Op& op) {
  if (op.kind != OpKind::Add) return {};
  for (const Value* operand : op.operands) {
    if (operand->def == nullptr && !operand->type.partial.axes.empty())
      return operand->type.partial;
  }
  return {};
}

const Op* last_forward_op(const Module& module, const Func& func) {
  const auto note = module.notes.find("loss");
  if (func.name() != "micro" || note == module.notes.end()) return nullptr;
  const auto found = std::ranges::find(func.results, note->second, &FuncResult::name);
  return found == func.results.end() ? nullptr : found->value->def;
}

}  // namespace tessera
