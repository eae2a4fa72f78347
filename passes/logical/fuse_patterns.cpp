// Recognises what exporters decompose: norms, activations, attention become one op each, so that
// they have one gradient, one kernel, and a row that says how they may be cut. Each pattern stands
// in a file of its own (fuse_*.cpp).
#include <functional>

#include "ir/base/text.h"
#include "passes/logical/fuse.h"
#include "passes/pass.h"

namespace tessera {
namespace {

struct Pattern {
  const char* name;
  std::function<bool(Module&, Op&)> apply;
};

}  // namespace

bool fuse_patterns(Module& module, PassContext& context) {
  bool changed = false;
  MaskCache masks;
  // Attention comes last: it looks for softmaxes, which no other pattern touches.
  const Pattern patterns[] = {
      {"layer_norm", fuse_layer_norm},
      {"rms_norm", fuse_rms_norm},
      {"gelu", fuse_gelu},
      {"silu", fuse_silu},
      {"cross_entropy", fuse_cross_entropy},
      {"attention", [&](Module& m, Op& op) { return fuse_attention(m, op, masks); }}};
  for (const auto& func : module.funcs()) {
    for (const Pattern& pattern : patterns) {
      func->erase_unused_ops();  // or they would be matched again
      int count = 0;
      for (auto it = func->ops().begin(); it != func->ops().end(); ++it)
        count += pattern.apply(module, **it) ? 1 : 0;
      if (count > 0) context.remark(str("fused ", count, " ", pattern.name));
      changed = changed || count > 0;
    }
    func->erase_unused_ops();
  }
  return changed;
}

}  // namespace tessera
