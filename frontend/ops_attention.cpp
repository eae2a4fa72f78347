// ONNX Attention and RotaryEmbedding (opset 23 and later), without key/value caches.
#include <cmath>

#include "frontend/importer.h"
#include "ir/base/text.h"

namespace tessera {
namespace {

// [b, s, heads * d] or [b, heads, s, d] -> [b, s, heads, d]
Value* by_heads(Node& n, Value* x, const char* attr) {
  if (x->type.rank() == 4) return n.b.transpose(x, {0, 2, 1, 3});
  const std::int64_t heads = n.attr(attr, std::int64_t{0});
  if (x->type.rank() != 3 || heads < 1 || x->type.shape[2] % heads != 0) {
    n.fail(str("an input of rank ", x->type.rank(), " with ", attr, " = ", heads,
               " cannot be cut in heads"));
  }
  return n.b.reshape(x, {x->type.shape[0], x->type.shape[1], heads, x->type.shape[2] / heads});
}

// The mask broadcasts to [b, heads, S, T]; its loops are those of size above 1.
Value* mask_of(Node& n, std::int64_t groups, std::int64_t queries, const Shape& full,
               std::string& loops) {
  Value* mask = n.in(3);
  Shape own(4 - mask->type.rank(), 1);
  own.insert(own.end(), mask->type.shape.begin(), mask->type.shape.end());
  Shape kept;
  const std::string names = "bhST";
  for (std::size_t d = 0; d < 4; ++d) {
    if (own[d] == 1 && full[d] != 1) continue;
    if (own[d] != full[d])
      n.fail(str("the mask's dimension ", d, " is ", own[d], ", needs 1 or ", full[d]));
    if (names[d] == 'h') {
      kept.insert(kept.end(), {groups, queries});
      loops += "gr";
    } else {
      kept.push_back(own[d]);
      loops += names[d];
    }
  }
  return n.b.reshape(mask, kept);
}

void attention(Node& n) {
  if (n.has(4) || n.has(5) || n.output_count() > 1)
    n.fail("key/value caches and further outputs are not supported yet");
  if (n.attr("softcap", 0.0) != 0.0) n.fail("softcap is not supported");
  const bool flat = n.in(0)->type.rank() == 3;
  Value* q = by_heads(n, n.in(0), "q_num_heads");
  Value* k = by_heads(n, n.in(1), "kv_num_heads");
  Value* v = by_heads(n, n.in(2), "kv_num_heads");
  const Shape& qs = q->type.shape;
  const std::int64_t groups = k->type.shape[2];
  if (groups == 0 || qs[2] % groups != 0)
    n.fail(str(qs[2], " query heads for ", groups, " key heads"));
  const std::int64_t queries = qs[2] / groups;
  AttrList attrs{{"scale", n.attr("scale", 1.0 / std::sqrt(static_cast<double>(qs[3])))}};
  // ONNX aligns the triangle at the first key; ours at the last.
  const bool causal = n.attr("is_causal", std::int64_t{0}) != 0;
  if (causal && qs[1] != k->type.shape[1]) n.fail("is_causal needs equally many queries and keys");
  if (causal) attrs.set("causal", true);
  std::vector<Value*> operands{n.b.reshape(q, {qs[0], qs[1], groups, queries, qs[3]}), k, v};
  if (n.has(3)) {
    std::string loops;
    operands.push_back(mask_of(n, groups, queries, {qs[0], qs[2], qs[1], k->type.shape[1]}, loops));
    attrs.set("mask", loops);
  }
  attrs.set("empty_rows_zero", true);
  Value* out = n.b.emit_all(OpKind::Attention, operands, attrs)[0];
  const std::int64_t e = v->type.shape[3];
  out = n.b.reshape(out, {qs[0], qs[1], qs[2], e});
  n.set(0, flat ? n.b.reshape(out, {qs[0], qs[1], qs[2] * e}) : n.b.transpose(out, {0, 2, 1, 3}));
}

// (x, cos, sin [, position ids]): the first part of each head is rotated, by halves or interleaved
// pairs.
void rotary_embedding(Node& n) {
  Value* x = n.in(0);
  const bool flat = x->type.rank() == 3;
  Value* heads = flat ? by_heads(n, x, "num_heads") : n.b.transpose(x, {0, 2, 1, 3});
  const Shape shape = heads->type.shape;  // [b, s, h, d]
  std::int64_t rotated = n.attr("rotary_embedding_dim", std::int64_t{0});
  if (rotated == 0) rotated = shape[3];
  if (rotated > shape[3] || rotated % 2 != 0)
    n.fail(str("rotary_embedding_dim ", rotated, " of a head of size ", shape[3]));
  if (n.attr("interleaved", std::int64_t{0}) != 0) n.fail("interleaved = 1 is not supported");
  const std::int64_t half = rotated / 2;
  const auto table = [&](std::size_t i) {
    Value* t = n.in(i);
    if (n.has(3)) t = n.b.emit(OpKind::Gather, {t, n.in(3)}, {{"dim", std::int64_t{0}}});
    if (t->type.rank() != 3 || t->type.shape[2] != half) n.fail("cos and sin do not fit the heads");
    return n.b.broadcast(n.b.broadcast_to(t, {shape[0], shape[1], half}), {0, 1, 3},
                         {shape[0], shape[1], shape[2], half});
  };
  Value* cos = table(1);
  Value* sin = table(2);
  Value* a = n.b.slice(heads, 3, 0, half);
  Value* b = n.b.slice(heads, 3, half, rotated);
  std::vector<Value*> parts{n.b.sub(n.b.mul(a, cos), n.b.mul(b, sin)),
                            n.b.add(n.b.mul(b, cos), n.b.mul(a, sin))};
  if (rotated < shape[3]) parts.push_back(n.b.slice(heads, 3, rotated, shape[3]));
  Value* out = n.b.emit(OpKind::Concat, parts, {{"dim", std::int64_t{3}}});
  n.set(0, flat ? n.b.reshape(out, x->type.shape) : n.b.transpose(out, {0, 2, 1, 3}));
}

}  // namespace

void add_attention_ops(TranslatorTable& t) {
  t["Attention"] = attention;
  t["RotaryEmbedding"] = rotary_embedding;
}

}  // namespace tessera
