// Removes ops that no result depends on, and parameters that no op reads:
//
//   %u = exp %x : f32[8]         =>   (nothing)
//   return %y as "y"                  return %y as "y"
//
// Ops have no side effects, so one sweep from the end suffices. Inputs stay, used or not: they are
// the function's interface. States stay as long as some function reads or updates them.
#include <algorithm>

#include "ir/base/text.h"
#include "passes/pass.h"

namespace tessera {
namespace {

bool updates(const Func& func, const std::string& arg) {
  return std::ranges::any_of(
      func.results, [&](const FuncResult& result) { return result.updates && result.name == arg; });
}

bool remove_dead_args(Module& module, Func& func, PassContext& context) {
  bool changed = false;
  for (std::size_t i = func.args().size(); i-- > 0;) {
    const Arg& arg = func.args()[i];
    const std::string name = arg.value->name;
    if (arg.kind == ArgKind::Input || func.has_uses(arg.value.get()) || updates(func, name))
      continue;
    func.erase_arg(arg.value.get());
    changed = true;
    const bool elsewhere = std::ranges::any_of(
        module.funcs(), [&](const auto& other) { return other->find_arg(name) != nullptr; });
    if (!elsewhere && module.weights.erase(name) > 0)
      context.remark(str("parameter %", name, " is not used, removed"));
  }
  return changed;
}

// Constants that no op reads any more.
void remove_dead_constants(Module& module) {
  std::vector<std::string> used;
  for (const auto& func : module.funcs()) {
    for (const auto& op : func->ops()) {
      if (op->kind == OpKind::Constant) used.push_back(op->attrs.text("data"));
    }
  }
  std::ranges::sort(used);
  std::erase_if(module.constants,
                [&](const auto& item) { return !std::ranges::binary_search(used, item.first); });
}

}  // namespace

bool remove_dead(Module& module, PassContext& context) {
  bool changed = false;
  for (const auto& func : module.funcs()) {
    changed |= func->erase_unused_ops();
    changed |= remove_dead_args(module, *func, context);
  }
  remove_dead_constants(module);
  return changed;
}

}  // namespace tessera
