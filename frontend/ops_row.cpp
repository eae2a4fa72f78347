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

// Scores or log probabilities [N, C, ...] with the classes last, and labels [N, ...].
struct Classified {
  Value* rows;
  Value* labels;
  std::optional<std::int64_t> ignore;  // a label that does not count
  Ints perm;                           // of the classes to the end
};

Classified classified(Node& n) {
  Classified c{n.in(0), n.in(1), std::nullopt, {}};
  const std::size_t rank = c.rows->type.rank();
  if (n.has(2)) n.fail("class weights are not supported");
  if (rank < 2 || c.labels->type.rank() + 1 != rank)
    n.fail("scores need one dimension more than labels");
  c.perm.resize(rank);
  std::iota(c.perm.begin(), c.perm.end(), 0);
  c.perm.erase(c.perm.begin() + 1);
  c.perm.push_back(1);
  c.rows = n.b.transpose(c.rows, c.perm);
  if (n.has_attr("ignore_index")) c.ignore = n.attr("ignore_index", std::int64_t{0});
  if (const Value* input = input_behind(c.labels))
    note_range(n.b.module(), *input, c.rows->type.shape.back(), c.ignore);
  return c;
}

Value* counts_of(Node& n, const Classified& c) {
  if (!c.ignore) return n.b.fill(1, DType::Bool, c.labels->type.shape);
  return n.b.emit(OpKind::NotEqual,
                  {c.labels, n.b.fill_like(static_cast<double>(*c.ignore), c.labels)});
}

// The losses of the labels that count, added or averaged as the node says.
Value* reduced_loss(Node& n, const Classified& c, Value* loss) {
  const std::string reduction = n.attr("reduction", std::string("mean"));
  if (reduction == "none") return loss;
  if (reduction != "sum" && reduction != "mean")
    n.fail(str("reduction ", in_quotes(reduction), " is unknown"));
  Ints all(c.labels->type.rank());
  std::iota(all.begin(), all.end(), 0);
  Value* total = n.b.reduce_sum(loss, all);
  if (reduction == "sum") return total;
  return n.b.div(total, n.b.reduce_sum(n.b.cast(counts_of(n, c), total->type.dtype), all));
}

// (scores, labels [, weights]) -> loss [, log probabilities]
void softmax_cross_entropy_loss(Node& n) {
  const Classified c = classified(n);
  Value* loss = n.b.emit_all(OpKind::CrossEntropy, {c.rows, c.labels},
                             {{"ignore", c.ignore.value_or(-1)}})[0];
  n.set(0, reduced_loss(n, c, loss));
  if (n.output_count() > 1) {
    Ints back(c.perm.size());
    for (std::size_t d = 0; d < back.size(); ++d)
      back[static_cast<std::size_t>(c.perm[d])] = static_cast<std::int64_t>(d);
    n.set(1, n.b.transpose(n.b.emit(OpKind::LogSoftmax, {c.rows}), back));
  }
}

// (log probabilities, labels [, weights]) -> loss, as the decomposition that exporters write;
// fuse_patterns finds the cross entropy in it.
void negative_log_likelihood_loss(Node& n) {
  const Classified c = classified(n);
  Value* keep = counts_of(n, c);
  Value* ids = c.labels;
  if (c.ignore) ids = n.b.emit(OpKind::Select, {keep, ids, n.b.fill_like(0, ids)});
  Shape unit = ids->type.shape;
  unit.push_back(1);
  const auto last = static_cast<std::int64_t>(unit.size()) - 1;
  Value* picked =
      n.b.emit(OpKind::GatherElements, {c.rows, n.b.reshape(ids, unit)}, {{"dim", last}});
  Value* loss = n.b.neg(n.b.reshape(picked, ids->type.shape));
  if (c.ignore) loss = n.b.emit(OpKind::Select, {keep, loss, n.b.fill_like(0, loss)});
  n.set(0, reduced_loss(n, c, loss));
}

}  // namespace

void add_row_ops(TranslatorTable& t) {
  t["Softmax"] = softmax<OpKind::Softmax>;
  t["LogSoftmax"] = softmax<OpKind::LogSoftmax>;
  t["LayerNormalization"] = layer_norm;
  t["RMSNormalization"] = rms_norm;
  t["SimplifiedLayerNormalization"] = rms_norm;
  t["SoftmaxCrossEntropyLoss"] = softmax_cross_entropy_loss;
  t["NegativeLogLikelihoodLoss"] = negative_log_likelihood_loss;
}

}  // namespace tessera
