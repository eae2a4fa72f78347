// Row ops (softmax, norms, cross entropy) need their inner loop whole. Where the plan cuts it, they
// become primitives whose partial states the type checker understands:
//
//   %y, %m, %r = layer_norm %x, %g, %b loops(J: x)
//       =>   %s = reduce_sum %x dims (2) ... %m = mul %s, %n ... %c = sub %x, %m.b ... %v =
//       reduce_sum %c.sq dims (2) ...
//
// Loops of the new ops that run over a dimension of the row op are cut as that one's are. Ops whose
// inner loop is whole stay fused.
#include <map>

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

// Which loop of the row op runs over each dimension of the values that take its place.
class RowLoops {
 public:
  explicit RowLoops(const Op& op) : map_(index_map(op)) {
    for (std::size_t i = 0; i < op.operands.size(); ++i) record(op.operands[i], map_.operands[i]);
  }
  void record_result(const Value* value, std::size_t result) {
    record(value, map_.results[result]);
  }

  // Dimensions that `op` ties to known ones become known; whether there were such.
  bool follow(const Op& op) {
    const std::map<char, char> found = loops_of(op);
    const std::size_t before = known_.size();
    each_dimension(op, [&](const Value* value, std::size_t dim, char loop) {
      if (const auto at = found.find(loop); at != found.end())
        known_.try_emplace({value, dim}, at->second);
    });
    return known_.size() > before;
  }

  // By loop of `op`, those that are known.
  std::map<char, char> loops_of(const Op& op) const {
    std::map<char, char> found;
    each_dimension(op, [&](const Value* value, std::size_t dim, char loop) {
      if (const auto at = known_.find({value, dim}); at != known_.end())
        found.try_emplace(loop, at->second);
    });
    return found;
  }

 private:
  void record(const Value* value, const std::string& term) {
    for (std::size_t d = 0; d < term.size(); ++d) known_.try_emplace({value, d}, term[d]);
  }
  template <class Visit>
  static void each_dimension(const Op& op, Visit visit) {
    const IndexMap map = index_map(op);
    for (std::size_t i = 0; i < map.operands.size(); ++i) {
      for (std::size_t d = 0; d < map.operands[i].size(); ++d)
        visit(op.operand(i), d, map.operands[i][d]);
    }
    for (std::size_t i = 0; i < map.results.size(); ++i) {
      for (std::size_t d = 0; d < map.results[i].size(); ++d)
        visit(op.result(i), d, map.results[i][d]);
    }
  }

  IndexMap map_;
  std::map<std::pair<const Value*, std::size_t>, char> known_;
};

// `ops` take the place of `row`, which still has its loops.
void assign(const Op& row, const std::vector<Op*>& ops, const std::vector<Value*>& results) {
  RowLoops rows(row);
  for (std::size_t i = 0; i < results.size(); ++i) rows.record_result(results[i], i);
  for (bool more = true; more;) {  // broadcasts are known by their readers
    more = false;
    for (const Op* op : ops) more = rows.follow(*op) || more;
  }
  for (Op* op : ops) {
    const IndexMap map = index_map(*op);
    LoopAxes loops;
    for (const auto& [loop, from] : rows.loops_of(*op)) {
      const auto axes = row.loops->find(from);
      if (axes != row.loops->end() && !map.is_whole(loop)) loops[loop] = axes->second;
    }
    op->loops = std::move(loops);
  }
}

void expand(Module& module, Op& op) {
  Builder builder(module, op);
  Func::OpList& list = op.func->ops();
  const bool first = op.place == list.begin();
  const auto before = first ? op.place : std::prev(op.place);
  builder.set_name(op.result()->name);
  const std::vector<Value*> replacements = op_def(op.kind).expand(builder, op);
  TESSERA_CHECK(replacements.size() == op.results.size(), "expansion of ", mnemonic(op.kind),
                " lacks results");
  std::vector<Op*> ops;
  for (auto it = first ? list.begin() : std::next(before); it != op.place; ++it)
    ops.push_back(it->get());
  for (Op* made : ops) {
    if (op.attrs.flag(kRecomputed)) made->attrs.set(kRecomputed, true);
  }
  assign(op, ops, replacements);
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
