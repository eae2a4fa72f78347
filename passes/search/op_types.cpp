#include "passes/search/op_types.h"

#include <algorithm>

#include "ir/op_def.h"
#include "passes/sharded/loop_assignment.h"

namespace tessera {

Type need_type(const Type& logical, const std::string& term, const LoopAxes& loops) {
  return {logical.dtype, logical.shape, cuts_of(term, loops)};
}

Type made_type(OpKind kind, const Type& logical, const std::string& term, const LoopAxes& loops) {
  Type made = need_type(logical, term, loops);
  const bool by_rows = family(kind) == OpFamily::Normalization && kind != OpKind::AttentionGrad;
  if (by_rows) return made;
  for (const auto& [loop, axes] : loops) {
    if (term.find(loop) == std::string::npos)
      made.partial.axes = concatenated(made.partial.axes, axes);
  }
  std::ranges::sort(made.partial.axes);
  if (!made.partial.axes.empty()) made.partial.op = op_def(kind).reduce;
  return made;
}

RowStatistics row_statistics(const Type& made, const IndexMap& map, const LoopAxes& loops) {
  RowStatistics found{{}, made};
  for (const auto& [loop, axes] : loops) {
    if (map.is_expandable(loop)) found.over = concatenated(found.over, axes);
  }
  found.rows.partial = {};
  if (made.rank() > 0 && made.cuts.back() == found.over) {
    found.rows.shape.pop_back();
    found.rows.cuts.pop_back();
  }
  return found;
}

double step_op_seconds(const Machine& machine, const Grid& grid, const OpView& op) {
  if (family(op.kind) != OpFamily::Elementwise) return op_seconds(machine, grid, op);
  double bytes = 0;
  for (const Type* made : op.results)
    bytes += static_cast<double>(largest_local_bytes(*made, grid));
  return bytes / machine.device.memory_bandwidth;
}

}  // namespace tessera
