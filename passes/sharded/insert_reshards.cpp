// Derives the sharded types from the loop assignments, and makes every change of sharding an
// explicit reshard:
//
//   %p = einsum %a, %w "mk,kn->mn" loops(m: data,z; k: x; n: y)
//       =>   %w.r = reshard %w : f32[512{x}, 256{y}]            (stored as f32[512{x,z}, 256{y}])
//            %p = einsum %a, %w.r "mk,kn->mn" : f32[64{data,z}, 256{y}] partial(sum: x)
//
// A value keeps all its versions, so equal needs share one reshard, and a partial value is reduced
// once. Sources (fill, iota, constants, broadcast scalars) are not resharded but made again as
// needed. Partials stay partial through additions of partials (two uses of a tied weight are
// reduced together; gradients that are summed over micro-batches are reduced once a step), and
// scalars are brought to common partial axes (the squared norms of
// differently cut gradients become one small all_reduce).
#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "ir/base/text.h"
#include "ir/op_def.h"
#include "ir/verify.h"
#include "passes/pass.h"
#include "passes/sharded/loop_assignment.h"
#include "passes/sharded/reshard_path.h"
#include "passes/sharded/step_parts.h"

namespace tessera {
namespace {

class Resharder {
 public:
  Resharder(Module& module, Func& func, PassContext& context)
      : module_(module), func_(func), context_(context) {}

  void run() {
    func_.erase_unused_ops();  // expansions leave some
    const Op* loss = context_.options.regather ? last_forward_op(module_, func_) : nullptr;
    for (auto it = func_.ops().begin(); it != func_.ops().end(); ++it) {
      type_op(**it);
      if (it->get() == loss) forget_gathered();
    }
    for (FuncResult& result : func_.results) {
      Type type = result.value->type;
      type.partial = {};
      if (result.updates) type = func_.find_arg(result.name)->type;
      // At once: the gradient that a rank has made is larger than what it keeps of it.
      Op* def = result.value->def;
      const auto where = def == nullptr ? func_.ops().end() : std::next(def->place);
      result.value = version(result.value, type, where, "");
    }
    func_.erase_unused_ops();  // sources that were made again
  }

 private:
  // The backward pass gathers again what the forward pass has gathered, instead of keeping it.
  void forget_gathered() {
    const auto bytes = [&](const Value* v) { return largest_local_bytes(v->type, module_.grid); };
    for (auto& [value, versions] : versions_) {
      std::int64_t least = bytes(value);
      for (const Value* version : versions) least = std::min(least, bytes(version));
      if (std::erase_if(versions, [&](const Value* v) { return bytes(v) > least; }) > 0)
        forgotten_.insert(value);
    }
  }

  void type_op(Op& op) {
    const IndexMap map = index_map(op);
    const LoopAxes loops = op.loops.value_or(LoopAxes{});
    op.loops.reset();
    std::vector<Type> needed;
    for (std::size_t i = 0; i < op.operands.size(); ++i) {
      needed.push_back(op.operands[i]->type.logical());
      needed.back().cuts = cuts_of(map.operands[i], loops);
    }
    const Partial kept = kept_partial(op, needed);
    for (std::size_t i = 0; i < op.operands.size(); ++i) {
      needed[i].partial = kept;
      remark_gather(op, map, i, needed[i]);
      func_.set_operand(&op, i, version(op.operands[i], needed[i], op.place, op.origin));
    }
    for (std::size_t i = 0; i < op.results.size(); ++i)
      op.result(i)->type.cuts = cuts_of(map.results[i], loops);
    const Derived derived = derive_types(op, module_.grid);
    TESSERA_CHECK(derived.problems.empty(), op.origin, " ",
                  derived.problems.empty() ? "" : derived.problems[0]);
    for (std::size_t i = 0; i < op.results.size(); ++i) op.result(i)->type = derived.results[i];
  }

  // The partial state in which `op` takes its operands: none, unless it is linear in them together
  // and it pays.
  Partial kept_partial(const Op& op, const std::vector<Type>& needed) const {
    const bool addition = op.kind == OpKind::Add || op.kind == OpKind::Sub;
    const bool movement = op.kind == OpKind::Transpose || op.kind == OpKind::Reshape;
    if (!addition && !movement) return {};
    if (Partial kept = accumulated_partial(op); !kept.axes.empty()) return kept;
    Partial first = op.operand(0)->type.partial;
    if (addition && op.result()->type.rank() == 0) {
      Axes axes = first.axes;
      for (const Value* operand : op.operands) {
        if (!operand->type.partial.axes.empty() && operand->type.partial.op != ReduceOp::Sum)
          return {};
        axes = concatenated(without(axes, operand->type.partial.axes), operand->type.partial.axes);
      }
      std::ranges::sort(axes);
      return {ReduceOp::Sum, axes};
    }
    if (first.axes.empty() || (addition && first.op != ReduceOp::Sum)) return {};
    for (std::size_t i = 0; i < op.operands.size(); ++i) {
      const Type& type = op.operands[i]->type;
      const bool reduced_before = versions_.contains(op.operands[i]);
      if (reduced_before || !(type.partial == first) || type.cuts != needed[i].cuts) return {};
    }
    return first;
  }

  Value* version(Value* value, const Type& type, Func::OpList::iterator where,
                 const std::string& origin) {
    if (value->type == type) return value;
    std::vector<Value*>& versions = versions_[value];
    for (Value* candidate : versions) {
      if (candidate->type == type) return candidate;
    }
    Value* made = is_source(value->def) ? make_again(*value->def, type, where)
                                        : reshard(value, type, where, versions);
    if (made->def->origin.empty()) made->def->origin = origin;
    versions.push_back(made);
    return made;
  }

  Value* make_again(const Op& source, const Type& type, Func::OpList::iterator where) {
    Type cut = type;
    cut.partial = {};
    Op* copy = func_.insert(where, source.kind, source.operands, source.attrs, {cut},
                            source.result()->name);
    copy->origin = source.origin;
    if (type.partial.axes.empty()) return copy->result();
    return func_.insert(where, OpKind::Reshard, {copy->result()}, {}, {type}, copy->result()->name)
        ->result();
  }

  // From the version that is cheapest to start from; a reduced version always beats reducing again.
  Value* reshard(Value* value, const Type& type, Func::OpList::iterator where,
                 const std::vector<Value*>& versions) {
    Value* best = value;
    double least = cheapest_reshard(value->type, type, module_.grid).bytes;
    for (Value* candidate : versions) {
      const double bytes = cheapest_reshard(candidate->type, type, module_.grid).bytes;
      if (bytes < least) {
        best = candidate;
        least = bytes;
      }
    }
    AttrList attrs;
    if (forgotten_.contains(value)) attrs.set(kRecomputed, true);
    return func_.insert(where, OpKind::Reshard, {best}, attrs, {type}, str(value->name, ".r"))
        ->result();
  }

  // An op that needs a cut dimension whole falls back to copies of it: say so, and what it costs.
  void remark_gather(const Op& op, const IndexMap& map, std::size_t i, const Type& needed) {
    const Value* value = op.operands[i];
    if (is_source(value->def) || !value->type.partial.axes.empty()) return;
    for (std::size_t d = 0; d < value->type.rank(); ++d) {
      if (value->type.cuts[d].empty() || !needed.cuts[d].empty() ||
          !map.is_whole(map.operands[i][d]))
        continue;
      context_.remark(str("fallback: ", mnemonic(op.kind),
                          op.origin.empty() ? "" : str(" (node '", op.origin, "')"),
                          " needs dimension ", d, " of %", value->name, " whole: gathered over ",
                          module_.grid.text(value->type.cuts[d]), ", ",
                          largest_local_bytes(needed, module_.grid), " bytes on every rank"));
    }
  }

  Module& module_;
  Func& func_;
  PassContext& context_;
  std::unordered_map<const Value*, std::vector<Value*>> versions_;
  std::unordered_set<const Value*> forgotten_;  // gathered again in the backward pass
};

}  // namespace

bool insert_reshards(Module& module, PassContext& context) {
  for (const auto& func : module.funcs()) Resharder(module, *func, context).run();
  return true;
}

}  // namespace tessera
