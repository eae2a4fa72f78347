// Lowers each reshard to the cheapest sequence of collectives (passes/sharded/reshard_path.h):
//
//   %c = reshard %p : f32[8{data}, 64{x}]      =>   %c.rs = reduce_scatter %p over x dim 1 : ...
//   partial(sum: y) with %p : f32[8{data}, 64] partial(sum: y,x)     %c = all_reduce %c.rs over y :
//   f32[8{data}, 64{x}]
#include "ir/base/text.h"
#include "ir/graph.h"
#include "passes/pass.h"
#include "passes/sharded/reshard_path.h"

namespace tessera {
namespace {

AttrList attrs_of(const ReshardMove& move) {
  AttrList attrs{{"over", AxesAttr{move.over}}};
  if (move.kind == OpKind::AllToAll) {
    attrs.set("from", move.from);
    attrs.set("to", move.dim);
  } else if (move.dim >= 0) {
    attrs.set("dim", move.dim);
  }
  return attrs;
}

std::string_view suffix(OpKind kind) {
  switch (kind) {
    case OpKind::AllReduce:
      return "ar";
    case OpKind::AllGather:
      return "ag";
    case OpKind::ReduceScatter:
      return "rs";
    case OpKind::AllToAll:
      return "aa";
    case OpKind::SliceToShard:
      return "sl";
    default:
      return "kf";
  }
}

void lower(Op& reshard, const Grid& grid) {
  Func& func = *reshard.func;
  const ReshardPath path = cheapest_reshard(reshard.operand(0)->type, reshard.result()->type, grid);
  const std::string base = reshard.operand(0)->name;
  Value* value = reshard.operand(0);
  for (const ReshardMove& move : path.moves) {
    Op* op = func.insert(reshard.place, move.kind, {value}, attrs_of(move), {move.result},
                         str(base, ".", suffix(move.kind)));
    op->origin = reshard.origin;
    if (reshard.attrs.flag(kRecomputed)) op->attrs.set(kRecomputed, true);
    value = op->result();
  }
  func.replace_all_uses(reshard.result(), value);
  func.erase(&reshard);
}

}  // namespace

bool lower_reshards(Module& module, PassContext&) {
  bool changed = false;
  for (const auto& func : module.funcs()) {
    for (auto it = func->ops().begin(); it != func->ops().end();) {
      Op& op = **it++;
      if (op.kind != OpKind::Reshard) continue;
      lower(op, module.grid);
      changed = true;
    }
  }
  return changed;
}

}  // namespace tessera
