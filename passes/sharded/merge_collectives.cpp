// Merges collectives with their neighbours:
//
//   %b = all_reduce %a over y : f32[8, 4]                    %c = reduce_scatter %a over y dim 0 :
//   f32[8{y}, 4] %c = slice_to_shard %b over y dim 0 : f32[8{y}, 4]   =>
//
//   %b = reduce_scatter %a over y dim 0 : f32[8{y}, 4]       %c = all_reduce %a over y : f32[8, 4]
//   %c = all_gather %b over y dim 0 : f32[8, 4]          =>
//
//   two equal collectives of one value                   =>  one
//
// The first is legal because slicing commutes with a reduction taken elementwise. Both leave a
// middle value alone that somebody else uses.
#include <algorithm>

#include "ir/graph.h"
#include "passes/pass.h"

namespace tessera {
namespace {

bool only_user(const Func& func, const Value* value) {
  return value->users.size() == 1 && !func.is_result(value);
}

// slice(all_reduce(x)) => reduce_scatter(x), then all_reduce over what is left.
bool merge_slice(Func& func, Op& slice) {
  Op* reduce = slice.operand(0)->def;
  if (slice.kind != OpKind::SliceToShard || reduce == nullptr || reduce->kind != OpKind::AllReduce)
    return false;
  const Axes& over = slice.attrs.axes("over");
  const Axes& reduced = reduce->attrs.axes("over");
  if (!only_user(func, reduce->result()) || !without(over, reduced).empty()) return false;
  Type type = reduce->operand(0)->type;
  const auto dim = static_cast<std::size_t>(slice.attrs.integer("dim"));
  type.cuts[dim] = concatenated(type.cuts[dim], over);
  type.partial.axes = without(type.partial.axes, over);
  Value* value = func.insert(slice.place, OpKind::ReduceScatter, {reduce->operand(0)},
                             {{"over", AxesAttr{over}}, {"dim", slice.attrs.integer("dim")}},
                             {type}, slice.result()->name)
                     ->result();
  const Axes rest = without(reduced, over);
  if (!rest.empty()) {
    type.partial.axes = without(type.partial.axes, rest);
    value = func.insert(slice.place, OpKind::AllReduce, {value}, {{"over", AxesAttr{rest}}}, {type},
                        value->name)
                ->result();
  }
  func.replace_all_uses(slice.result(), value);
  func.erase(&slice);
  func.erase(reduce);
  return true;
}

// all_gather(reduce_scatter(x)) => all_reduce(x)
bool merge_gather(Func& func, Op& gather) {
  Op* scatter = gather.operand(0)->def;
  if (gather.kind != OpKind::AllGather || scatter == nullptr ||
      scatter->kind != OpKind::ReduceScatter)
    return false;
  if (!only_user(func, scatter->result()) ||
      gather.attrs.axes("over") != scatter->attrs.axes("over") ||
      gather.attrs.integer("dim") != scatter->attrs.integer("dim")) {
    return false;
  }
  Axes over = gather.attrs.axes("over");
  std::ranges::sort(over);
  Op* reduce =
      func.insert(gather.place, OpKind::AllReduce, {scatter->operand(0)},
                  {{"over", AxesAttr{over}}}, {gather.result()->type}, gather.result()->name);
  func.replace_all_uses(gather.result(), reduce->result());
  func.erase(&gather);
  func.erase(scatter);
  return true;
}

// The same collective of the same value, done before.
bool share(Func& func, Op& op) {
  for (Op* earlier : op.operand(0)->users) {
    if (earlier == &op || earlier->kind != op.kind || !(earlier->attrs == op.attrs)) continue;
    const bool comes_first = std::any_of(func.ops().begin(), op.place,
                                         [&](const auto& other) { return other.get() == earlier; });
    if (!comes_first) continue;
    func.replace_all_uses(op.result(), earlier->result());
    func.erase(&op);
    return true;
  }
  return false;
}

}  // namespace

bool merge_collectives(Module& module, PassContext&) {
  bool changed = false;
  for (const auto& func : module.funcs()) {
    for (auto it = func->ops().begin(); it != func->ops().end();) {
      Op& op = **it++;
      if (family(op.kind) != OpFamily::Collective) continue;
      if (share(*func, op) || merge_slice(*func, op) || merge_gather(*func, op)) changed = true;
    }
  }
  return changed;
}

}  // namespace tessera
