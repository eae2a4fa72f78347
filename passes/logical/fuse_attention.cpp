// einsum(softmax(scale QK^T + mask), V)   =>   attention %q, %k, %v [, %mask] scale causal
//
// Operands are brought to [batch, sequence, group, query head, head_dim] by transposes that cancel
// with the exporter's. Keys and values that are broadcast over query heads lose the broadcast
// (grouped heads). A constant mask that is the causal triangle becomes `causal`; others are
// operands whose loops are named (attention_mask.h says which combinations). Left alone: softmax
// weights with another reader, masks that depend on a parameter, more than two batch dimensions.
#include <algorithm>
#include <cmath>

#include "ir/op_def.h"
#include "passes/logical/attention_mask.h"
#include "passes/logical/fuse.h"
#include "passes/logical/match.h"

namespace tessera {
namespace {

using namespace match;

// A contraction operand with its loops renamed to the dimensions of the scores: '0', '1' ... for
// those, letters else.
struct Part {
  Value* value = nullptr;
  std::string loops;
};

Part renamed(Value* value, const std::string& term, const std::string& scores) {
  Part part{value, term};
  for (char& loop : part.loops) {
    const std::size_t at = scores.find(loop);
    if (at != std::string::npos) loop = static_cast<char>('0' + at);
  }
  return part;
}

// Drops dimensions that a broadcast repeats.
Part without_broadcast(Part part) {
  const Op* op = part.value->def;
  if (op == nullptr || op->kind != OpKind::Broadcast) return part;
  Part inner{op->operand(0), ""};
  for (std::int64_t dim : op->attrs.ints("dims"))
    inner.loops += part.loops[static_cast<std::size_t>(dim)];
  return inner;
}

struct Attention {
  Part q, k, v;
  std::string result;  // loops of the output, in the same names
  double scale = 1;
  char s = 0, t = 0;                   // names of the query and key dimensions
  std::string batch, groups, queries;  // at most one name each
  bool zero_empty_rows = false;
};

bool only_use(const Value* value) { return value->users.size() == 1; }

char contracted_loop(const Part& a, const Part& b) {
  char found = 0;
  for (char loop : a.loops) {
    if (std::isdigit(static_cast<unsigned char>(loop)) || b.loops.find(loop) == std::string::npos)
      continue;
    if (found != 0) return 0;
    found = loop;
  }
  return found;
}

// Sorts the dimensions of the scores into batch, group, query head, S and T.
bool name_dims(Attention& a, std::size_t rank) {
  a.t = static_cast<char>('0' + rank - 1);
  a.s = static_cast<char>('0' + rank - 2);
  std::string shared;
  for (std::size_t d = 0; d + 2 < rank; ++d) {
    const char dim = static_cast<char>('0' + d);
    const auto in = [&](const Part& part) { return part.loops.find(dim) != std::string::npos; };
    if (!in(a.q)) return false;
    if (in(a.k) != in(a.v)) return false;
    (in(a.k) ? shared : a.queries) += dim;
  }
  if (shared.size() > 2 || a.queries.size() > 1) return false;
  if (!shared.empty()) a.batch = shared.substr(0, 1);
  if (shared.size() == 2) a.groups = shared.substr(1, 1);
  const auto has = [](const Part& part, char loop) {
    return part.loops.find(loop) != std::string::npos;
  };
  return has(a.q, a.s) && !has(a.q, a.t) && has(a.k, a.t) && !has(a.k, a.s) && has(a.v, a.t) &&
         !has(a.v, a.s);
}

// Brings a part to the order of `names` (an empty name is a dimension of size 1).
Value* arranged(Builder& b, const Part& part, const std::vector<std::string>& names) {
  Ints perm;
  Shape shape;
  for (const std::string& name : names) {
    const std::size_t at = name.empty() ? std::string::npos : part.loops.find(name);
    if (at == std::string::npos) {
      shape.push_back(1);
      continue;
    }
    perm.push_back(static_cast<std::int64_t>(at));
    shape.push_back(part.value->type.shape[at]);
  }
  if (perm.size() != part.value->type.rank()) return nullptr;
  return b.reshape(b.transpose(part.value, perm), shape);
}

// softmax, possibly with NaN rows replaced by 0.
Op* softmax_behind(const Module& module, Value* weights, bool& zero_empty_rows) {
  if (Op* select = op_of(weights, OpKind::Select)) {
    Op* nan = op_of(select->operand(0), OpKind::IsNan);
    const auto zero = splat_of(module, select->operand(1));
    if (nan == nullptr || !zero || *zero != 0 || nan->operand(0) != select->operand(2))
      return nullptr;
    zero_empty_rows = true;
    weights = select->operand(2);
  }
  return weights->def != nullptr && weights->def->kind == OpKind::Softmax ? weights->def : nullptr;
}

bool match_scores(const Module& module, Value* scores, Attention& a) {
  const Scaled outer = all_scaled(module, scores);
  Op* product = outer.value->def;
  if (product == nullptr || product->kind != OpKind::Einsum || product->operands.size() != 2 ||
      !only_use(product->result()))
    return false;
  const IndexMap map = index_map(*product);
  Part parts[2];
  for (std::size_t i : {0, 1}) {
    const Scaled inner = all_scaled(module, product->operand(i));
    if (inner.value->type.shape != product->operand(i)->type.shape) return false;
    parts[i] = renamed(inner.value, map.operands[i], map.results[0]);
    a.scale *= inner.factor;
  }
  a.scale *= outer.factor;
  const char t = static_cast<char>('0' + map.results[0].size() - 1);
  const std::size_t key = parts[0].loops.find(t) != std::string::npos ? 0 : 1;
  a.k = without_broadcast(parts[key]);
  a.q = parts[1 - key];
  return contracted_loop(a.q, a.k) != 0;
}

Value* build(Module& module, Op& op, const Attention& a, const Masks& masks, std::size_t rank) {
  Builder b(module, op);
  b.set_name(op.result()->name);
  const std::string s(1, a.s), t(1, a.t), d(1, contracted_loop(a.q, a.k));
  std::string e;
  for (char loop : a.v.loops) {
    if (!std::isdigit(static_cast<unsigned char>(loop))) e += loop;
  }
  if (e.size() != 1) return nullptr;
  Value* q = arranged(b, a.q, {a.batch, s, a.groups, a.queries, d});
  Value* k = arranged(b, a.k, {a.batch, t, a.groups, d});
  Value* v = arranged(b, a.v, {a.batch, t, a.groups, e});
  if (q == nullptr || k == nullptr || v == nullptr) return nullptr;
  std::vector<Value*> operands{q, k, v};
  AttrList attrs{{"scale", a.scale}};
  if (masks.causal) attrs.set("causal", true);
  std::map<char, char> names{{a.s, 'S'}, {a.t, 'T'}};
  if (!a.batch.empty()) names[a.batch[0]] = 'b';
  if (!a.groups.empty()) names[a.groups[0]] = 'g';
  if (!a.queries.empty()) names[a.queries[0]] = 'r';
  if (const auto mask = mask_operand(b, masks, rank)) {
    std::string loops;
    for (std::int64_t dim : mask->dims) loops += names.at(static_cast<char>('0' + dim));
    attrs.set("mask", loops);
    operands.push_back(mask->value);
  }
  if (masks.hidden != -HUGE_VAL) attrs.set("hidden", masks.hidden);
  if (a.zero_empty_rows) attrs.set("empty_rows_zero", true);
  AttrList ordered;  // attributes print in the order of their specs
  for (const AttrSpec& spec : attr_specs(OpKind::Attention)) {
    if (const Attr* attr = attrs.find(spec.name)) ordered.set(spec.name, *attr);
  }
  Value* out = b.emit_all(OpKind::Attention, operands, ordered)[0];
  // Back to the order of the result's loops.
  const std::string order = str(a.batch, s, a.groups, a.queries, e);
  Shape shape;
  const std::string all[] = {a.batch, s, a.groups, a.queries, e};
  for (std::size_t i = 0; i < 5; ++i) {
    if (!all[i].empty()) shape.push_back(out->type.shape[i]);
  }
  Ints perm;
  for (char loop : a.result) perm.push_back(static_cast<std::int64_t>(order.find(loop)));
  if (perm.size() != order.size()) return nullptr;
  return b.transpose(b.reshape(out, shape), perm);
}

}  // namespace

bool fuse_attention(Module& module, Op& op, MaskCache& cache) {
  if (op.kind != OpKind::Einsum || op.operands.size() != 2) return false;
  for (std::size_t i : {0, 1}) {
    Attention a;
    Op* softmax = softmax_behind(module, op.operand(i), a.zero_empty_rows);
    if (softmax == nullptr || !only_use(op.operand(i)) ||
        softmax->result()->users.size() > (a.zero_empty_rows ? 2u : 1u))
      continue;
    const std::size_t rank = softmax->result()->type.rank();
    if (rank < 2 || rank > 5 || op.operand(i)->type.rank() != rank) continue;
    const auto masks = split_masks(module, softmax->operand(0), cache);
    if (!masks || !match_scores(module, masks->scores, a)) continue;
    const IndexMap map = index_map(op);
    a.v = without_broadcast(renamed(op.operand(1 - i), map.operands[1 - i], map.operands[i]));
    for (char loop : map.results[0]) {
      const std::size_t at = map.operands[i].find(loop);
      a.result += at == std::string::npos ? loop : static_cast<char>('0' + at);
    }
    if (!name_dims(a, rank)) continue;
    Value* out = build(module, op, a, *masks, rank);
    if (out == nullptr) continue;
    op.func->replace_all_uses(op.result(), out);
    return true;
  }
  return false;
}

}  // namespace tessera
