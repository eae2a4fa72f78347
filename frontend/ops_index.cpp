// Reads and writes through indices.
#include <algorithm>

#include "frontend/importer.h"
#include "ir/base/text.h"

namespace tessera {
namespace {

// Indices may count from the end.
Value* wrapped_ids(Node& n, Value* ids, std::int64_t size) {
  if (!is_integer(ids->type.dtype)) n.fail("indices are not integers");
  Value* zero = n.b.fill_like(0, ids);
  Value* shifted = n.b.add(ids, n.b.fill_like(static_cast<double>(size), ids));
  return n.b.emit(OpKind::Select, {n.b.emit(OpKind::Less, {ids, zero}), shifted, ids});
}

void check_known_ids(const Node& n, std::size_t input, std::int64_t size) {
  const auto known = n.constant(input);
  for (std::int64_t i = 0; known && i < known->size(); ++i) {
    const double id = known->number(i);
    if (id < static_cast<double>(-size) || id >= static_cast<double>(size)) {
      n.fail(str("index ", id, " is out of range for a dimension of size ", size));
    }
  }
}

void gather(Node& n) {
  Value* table = n.in(0);
  const std::int64_t dim = n.axis(n.attr("axis", std::int64_t{0}), table->type.rank());
  const std::int64_t size = table->type.shape[static_cast<std::size_t>(dim)];
  Value* ids = n.in(1);
  if (ids->def != nullptr && (ids->def->kind == OpKind::Constant || ids->def->kind == OpKind::Fill))
    check_known_ids(n, 1, size);
  // One known position is a slice: nothing is looked up.
  const auto known = elements(ids->type.shape) == 1 ? n.constant(1) : std::nullopt;
  if (known) {
    std::int64_t at = static_cast<std::int64_t>(known->number(0));
    if (at < 0) at += size;
    Shape shape = table->type.shape;
    shape.erase(shape.begin() + dim);
    shape.insert(shape.begin() + dim, ids->type.shape.begin(), ids->type.shape.end());
    return n.set(0, n.b.reshape(n.b.slice(table, dim, at, at + 1), shape));
  }
  // Graph inputs are token ids, never counted from the end.
  const Value* input = input_behind(ids);
  if (input != nullptr) note_range(n.b.module(), *input, size);
  if (input == nullptr) ids = wrapped_ids(n, ids, size);
  n.set(0, n.b.emit(OpKind::Gather, {table, ids}, {{"dim", dim}}));
}

void gather_elements(Node& n) {
  Value* data = n.in(0);
  const std::int64_t dim = n.axis(n.attr("axis", std::int64_t{0}), data->type.rank());
  if (n.in(1)->type.rank() != data->type.rank()) n.fail("indices and data differ in rank");
  for (std::size_t d = 0; d < data->type.rank(); ++d) {
    if (static_cast<std::int64_t>(d) != dim && n.in(1)->type.shape[d] > data->type.shape[d])
      n.fail("indices are larger than the data");
  }
  n.set(0, n.b.emit(OpKind::GatherElements, {data, n.in(1)}, {{"dim", dim}}));
}

void gather_nd(Node& n) {
  n.set(0, n.b.emit(OpKind::GatherNd, {n.in(0), n.in(1)},
                    {{"batch_dims", n.attr("batch_dims", std::int64_t{0})}}));
}

AttrList reduction(const Node& n, AttrList attrs) {
  const std::string kind = n.attr("reduction", std::string("none"));
  if (kind != "none" && kind != "add")
    n.fail(str("reduction ", in_quotes(kind), " is not supported"));
  if (kind == "add") attrs.set("add", true);
  return attrs;
}

void scatter_elements(Node& n) {
  const std::int64_t dim = n.axis(n.attr("axis", std::int64_t{0}), n.in(0)->type.rank());
  if (n.in(1)->type.rank() != n.in(0)->type.rank()) n.fail("indices and data differ in rank");
  n.set(0, n.b.emit(OpKind::ScatterElements, {n.in(0), n.in(1), n.in(2)},
                    reduction(n, {{"dim", dim}})));
}

void scatter_nd(Node& n) {
  n.set(0, n.b.emit(OpKind::ScatterNd, {n.in(0), n.in(1), n.in(2)}, reduction(n, {})));
}

// equal(iota, indices) picks between the two values.
void one_hot(Node& n) {
  Value* ids = n.in(0);
  const auto depth = static_cast<std::int64_t>(n.number_in(1));
  if (depth < 0 || depth > (1 << 28)) n.fail(str("depth ", depth, " is out of range"));
  const std::size_t rank = ids->type.rank() + 1;
  const std::int64_t dim = n.axis(n.attr("axis", std::int64_t{-1}), rank);
  Shape shape = ids->type.shape;
  shape.insert(shape.begin() + dim, depth);
  Ints places;
  for (std::int64_t d = 0; d < static_cast<std::int64_t>(rank); ++d) {
    if (d != dim) places.push_back(d);
  }
  Value* hits = n.b.emit(OpKind::Equal, {n.b.iota(dim, ids->type.dtype, shape),
                                         n.b.broadcast(wrapped_ids(n, ids, depth), places, shape)});
  Value* off = n.b.reshape(n.b.slice(n.in(2), 0, 0, 1), {});
  Value* on = n.b.reshape(n.b.slice(n.in(2), 0, 1, 2), {});
  n.set(0, n.b.emit(OpKind::Select,
                    {hits, n.b.broadcast(on, {}, shape), n.b.broadcast(off, {}, shape)}));
}

void cum_sum(Node& n) {
  const std::int64_t dim = n.axis(n.int_in(1), n.in(0)->type.rank());
  AttrList attrs{{"dim", dim}};
  if (n.attr("exclusive", std::int64_t{0}) != 0) attrs.set("exclusive", true);
  if (n.attr("reverse", std::int64_t{0}) != 0) attrs.set("reverse", true);
  n.set(0, n.b.emit(OpKind::CumSum, {n.in(0)}, attrs));
}

void arg_max(Node& n) {
  Value* x = n.in(0);
  const std::int64_t dim = n.axis(n.attr("axis", std::int64_t{0}), x->type.rank());
  if (n.attr("select_last_index", std::int64_t{0}) != 0)
    n.fail("select_last_index is not supported");
  Value* best = n.b.emit(OpKind::ArgMax, {x}, {{"dim", dim}});
  n.set(0, keep_dims(n, best, x->type.shape, {dim}, n.attr("keepdims", std::int64_t{1}) != 0));
}

}  // namespace

void add_index_ops(TranslatorTable& t) {
  t["Gather"] = gather;
  t["GatherElements"] = gather_elements;
  t["GatherND"] = gather_nd;
  t["ScatterElements"] = scatter_elements;
  t["ScatterND"] = scatter_nd;
  t["OneHot"] = one_hot;
  t["CumSum"] = cum_sum;
  t["ArgMax"] = arg_max;
}

}  // namespace tessera
