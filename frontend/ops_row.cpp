// Row ops: softmax in both meanings, norms, losses.
#include <algorithm>
#include <numeric>

#include "frontend/importer.h"
#include "ir/base/text.h"

namespace tessera {
namespace {

// From opset 13 along one axis. Before, the input is seen as a matrix that is cut before `axis`
// (default 1).
template <OpKind kKind>
void softmax(Node& n) {
  Value* x = n.in(0);
  const Shape shape = x->type.shape;
  if (shape.empty()) n.fail("a scalar has no axis");
  if (n.opset() < 13) {
    const std::int64_t at = n.axis(n.attr("axis", std::int64_t{1}), shape.size());
    Shape matrix{1, 1};
    for (std::size_t d = 0; d < shape.size(); ++d)
      matrix[static_cast<std::int64_t>(d) < at ? 0 : 1] *= shape[d];
    const bool last_only = at == static_cast<std::int64_t>(shape.size()) - 1;
    n.set(0, last_only ? n.b.emit(kKind, {x})
                       : n.b.reshape(n.b.emit(kKind, {n.b.reshape(x, matrix)}), shape));
    return;
  }
  const std::int64_t axis = n.axis(n.attr("axis", std::int64_t{-1}), shape.size());
  Ints perm(shape.size());
  std::iota(perm.begin(), perm.end(), 0);
  std::swap(perm[static_cast<std::size_t>(axis)], perm.back());  // its own inverse
  n.set(0, n.b.transpose(n.b.emit(kKind, {n.b.transpose(x, perm)}), perm));
}

// Normalises over the dimensions from `axis` on: flattened to one when there are several.
struct Flattened {
  Value* x;
  Shape rows, row;
};

Flattened flattened(Node& n, Value* x, std::int64_t axis) {
  Flattened f{x, {}, {}};
  std::int64_t width = 1;
  for (std::size_t d = 0; d < x->type.rank(); ++d) {
    if (static_cast<std::int64_t>(d) < axis) {
      f.rows.push_back(x->type.shape[d]);
    } else {
      f.row.push_back(x->type.shape[d]);
      width *= x->type.shape[d];
    }
  }
  Shape shape = f.rows;
  shape.push_back(width);
  f.x = n.b.reshape(x, shape);
  return f;
}

Value* row_vector(Node& n, std::size_t input, const Flattened& f, double fallback) {
  Value* vector = n.has(input) ? n.in(input) : n.b.fill(fallback, f.x->type.dtype, f.row);
  return n.b.reshape(n.b.broadcast_to(vector, f.row), {f.x->type.shape.back()});
}

// The statistics outputs keep the normalised dimensions as 1.
void set_statistic(Node& n, std::size_t output, Value* value, const Flattened& f) {
  if (n.output_count() <= output) return;
  Shape shape = f.rows;
  shape.insert(shape.end(), f.row.size(), 1);
  n.set(output, n.b.reshape(value, shape));
}

void layer_norm(Node& n) {
  Value* x = n.in(0);
  const Flattened f = flattened(n, x, n.axis(n.attr("axis", std::int64_t{-1}), x->type.rank()));
  const auto results =
      n.b.emit_all(OpKind::LayerNorm, {f.x, row_vector(n, 1, f, 1), row_vector(n, 2, f, 0)},
                   {{"eps", n.attr("epsilon", 1e-5)}});
  n.set(0, n.b.reshape(results[0], x->type.shape));
  set_statistic(n, 1, results[1], f);
  set_statistic(n, 2, results[2], f);
}

void rms_norm(Node& n) {
  Value* x = n.in(0);
  const Flattened f = flattened(n, x, n.axis(n.attr("axis", std::int64_t{-1}), x->type.rank()));
  const auto results = n.b.emit_all(OpKind::RmsNorm, {f.x, row_vector(n, 1, f, 1)},
                                    {{"eps", n.attr("epsilon", 1e-5)}});
  n.set(0, n.b.reshape(results[0], x->type.shape));
  set_statistic(n, 1, results[1], f);
}

// (scores [N, C, ...], labels [N, ...] [, weights]) -> loss [, log probabilities]
void softmax_cross_entropy_loss(Node& n) {
  Value* scores = n.in(0);
  Value* labels = n.in(1);
  const std::size_t rank = scores->type.rank();
  if (n.has(2)) n.fail("class weights are not supported");
  if (rank < 2 || labels->type.rank() + 1 != rank)
    n.fail("scores need one dimension more than labels");
  Ints perm(rank);
  std::iota(perm.begin(), perm.end(), 0);
  perm.erase(perm.begin() + 1);
  perm.push_back(1);
  Value* rows = n.b.transpose(scores, perm);
  const bool has_ignore = n.has_attr("ignore_index");
  const std::int64_t ignore = has_ignore ? n.attr("ignore_index", std::int64_t{0}) : -1;
  Value* loss = n.b.emit_all(OpKind::CrossEntropy, {rows, labels}, {{"ignore", ignore}})[0];
  const std::string reduction = n.attr("reduction", std::string("mean"));
  Ints all(labels->type.rank());
  std::iota(all.begin(), all.end(), 0);
  if (reduction == "sum" || reduction == "mean") {
    Value* total = n.b.reduce_sum(loss, all);
    if (reduction == "mean") {
      Value* counts = n.b.cast(
          n.b.emit(OpKind::NotEqual, {labels, n.b.fill_like(static_cast<double>(ignore), labels)}),
          total->type.dtype);
      total = n.b.div(total, n.b.reduce_sum(counts, all));
    }
    loss = total;
  } else if (reduction != "none") {
    n.fail(str("reduction ", in_quotes(reduction), " is unknown"));
  }
  n.set(0, loss);
  if (n.output_count() > 1) {
    Ints back(rank);
    for (std::size_t d = 0; d < rank; ++d)
      back[static_cast<std::size_t>(perm[d])] = static_cast<std::int64_t>(d);
    n.set(1, n.b.transpose(n.b.emit(OpKind::LogSoftmax, {rows}), back));
  }
}

}  // namespace

void add_row_ops(TranslatorTable& t) {
  t["Softmax"] = softmax<OpKind::Softmax>;
  t["LogSoftmax"] = softmax<OpKind::LogSoftmax>;
  t["LayerNormalization"] = layer_norm;
  t["RMSNormalization"] = rms_norm;
  t["SimplifiedLayerNormalization"] = rms_norm;
  t["SoftmaxCrossEntropyLoss"] = softmax_cross_entropy_loss;
}

}  // namespace tessera
