// Row ops (softmax, norms, cross entropy) need their inner loop whole. Where the plan cuts it, they
// become primitives whose partial states the type checker understands:
//
//   %y, %m, %r = layer_norm %x, %g, %b loops(J: x)
//       =>   %s = reduce_sum %x dims (2) ... %m = mul %s, %n ... %c = sub %x, %m.b ... %v =
//       reduce_sum %c.sq dims (2) ...
//
// The new ops get their loops from propagate_shardings, which runs again. Ops whose inner loop is
// whole stay fused.
#include "ir/base/text.h"
#include "ir/builder.h"
#include "ir/op_def.h"
#include "passes/pass.h"

namespace tessera {
namespace {

bool cuts_expandable_loop(const Op& op) {
  if (!op.loops || op_def(op.kind).expand == nullptr) return false;
  const IndexMap map = index_map(op);
  for (const auto& [loop, axes] : *op.loops) {
    if (!axes.empty() && map.is_expandable(loop)) return true;
  }
  return false;
}

void expand(Module& module, Op& op) {
  Builder builder(module, op);
  const auto before = op.place == op.func->ops().begin() ? op.place : std::prev(op.place);
  builder.set_name(op.result()->name);
  const std::vector<Value*> replacements = op_def(op.kind).expand(builder, op);
  TESSERA_CHECK(replacements.size() == op.results.size(), "expansion of ", mnemonic(op.kind),
                " lacks results");
  if (op.attrs.flag(kRecomputed)) {
    for (auto it = std::next(before); it != op.place; ++it) (*it)->attrs.set(kRecomputed, true);
  }
  for (std::size_t i = 0; i < replacements.size(); ++i)
    op.func->replace_all_uses(op.result(i), replacements[i]);
  op.func->erase(&op);
}

}  // namespace

bool expand_cut_reductions(Module& module, PassContext& context) {
  int expanded = 0;
  for (const auto& func : module.funcs()) {
    for (auto it = func->ops().begin(); it != func->ops().end();) {
      Op& op = **it++;
      if (!cuts_expandable_loop(op)) continue;
      expand(module, op);
      ++expanded;
    }
  }
  if (expanded > 0)
    context.remark(str("expanded ", expanded, " row ops whose inner dimension is cut"));
  return expanded > 0;
}

}  // namespace tessera
