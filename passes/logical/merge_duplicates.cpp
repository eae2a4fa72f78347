// Merges ops of one kind with equal operands and attributes:
//
//   %a = exp %x : f32[8]
//   %b = exp %x : f32[8]      =>   %a = exp %x : f32[8]
//   %c = add %a, %b                %c = add %a, %a
//
// Random ops are left alone: each has its own id, and equal draws are not meant.
#include <map>

#include "ir/base/text.h"
#include "passes/pass.h"

namespace tessera {
namespace {

std::string key_of(const Op& op, const Grid& grid) {
  std::string key(mnemonic(op.kind));
  for (const Value* operand : op.operands) key += " %" + operand->name;
  for (const auto& [name, value] : op.attrs.items())
    key += str(" ", name, "=", to_text(value, grid));
  for (const auto& result : op.results) key += str(" : ", to_text(result->type, grid));
  return key;
}

}  // namespace

bool merge_duplicates(Module& module, PassContext&) {
  bool changed = false;
  for (const auto& func : module.funcs()) {
    std::map<std::string, Op*> seen;
    for (auto it = func->ops().begin(); it != func->ops().end();) {
      Op& op = **it++;
      if (op.kind == OpKind::Random) continue;
      const auto [found, fresh] = seen.try_emplace(key_of(op, module.grid), &op);
      if (fresh) continue;
      for (std::size_t i = 0; i < op.results.size(); ++i)
        func->replace_all_uses(op.result(i), found->second->result(i));
      func->erase(&op);
      changed = true;
    }
  }
  return changed;
}

}  // namespace tessera
