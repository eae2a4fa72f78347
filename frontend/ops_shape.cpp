// Sources and shape arithmetic: with all dimensions bound these fold away while they are built.
#include <algorithm>
#include <cmath>

#include "frontend/importer.h"
#include "ir/base/text.h"

namespace tessera {
namespace {

constexpr std::int64_t kMaxRange = 1 << 24;

Value* list(Node& n, const Ints& values) {
  return n.b.constant(
      Tensor::of<std::int64_t>(DType::I64, {static_cast<std::int64_t>(values.size())}, values));
}

void constant(Node& n) {
  if (const auto tensor = n.attr_tensor("value")) return n.set(0, n.b.constant(*tensor));
  if (n.has_attr("value_float")) {
    Tensor scalar(DType::F32, {});
    scalar.mutable_view<float>()[0] = static_cast<float>(n.attr("value_float", 0.0));
    return n.set(0, n.b.constant(scalar));
  }
  if (n.has_attr("value_int")) {
    Tensor scalar(DType::I64, {});
    scalar.mutable_view<std::int64_t>()[0] = n.attr("value_int", std::int64_t{0});
    return n.set(0, n.b.constant(scalar));
  }
  if (n.has_attr("value_ints")) return n.set(0, list(n, n.attr_ints("value_ints")));
  if (n.has_attr("value_floats")) {
    const std::vector<double> values = n.attr_floats("value_floats");
    Tensor tensor(DType::F32, {static_cast<std::int64_t>(values.size())});
    for (std::size_t i = 0; i < values.size(); ++i)
      tensor.mutable_view<float>()[i] = static_cast<float>(values[i]);
    return n.set(0, n.b.constant(tensor));
  }
  n.fail("only dense numeric constants are supported");
}

Shape checked_shape(const Node& n, const Ints& sizes) {
  if (sizes.size() > 16 || !sizes_are_sane(sizes))
    n.fail(str("shape (", join(sizes, ","), ") is negative or too large"));
  return sizes;
}

// Stays a fill, however large: nothing is allocated.
void constant_of_shape(Node& n) {
  const Shape shape = checked_shape(n, n.ints_in(0));
  const auto value = n.attr_tensor("value");
  if (value && value->size() != 1) n.fail("value must have one element");
  n.set(0, n.b.fill(value ? value->number(0) : 0.0, value ? value->dtype() : DType::F32, shape));
}

void shape(Node& n) {
  const Shape& sizes = n.in(0)->type.shape;
  const auto rank = static_cast<std::int64_t>(sizes.size());
  const auto clamp = [&](std::int64_t at) {
    return std::clamp<std::int64_t>(at < 0 ? at + rank : at, 0, rank);
  };
  const std::int64_t start = clamp(n.attr("start", std::int64_t{0}));
  const std::int64_t end = clamp(n.attr("end", rank));
  Ints part;
  for (std::int64_t d = start; d < end; ++d) part.push_back(sizes[static_cast<std::size_t>(d)]);
  n.set(0, list(n, part));
}

void size(Node& n) {
  Tensor scalar(DType::I64, {});
  scalar.mutable_view<std::int64_t>()[0] = elements(n.in(0)->type.shape);
  n.set(0, n.b.constant(scalar));
}

void range(Node& n) {
  const auto start = n.constant(0), limit = n.constant(1), delta = n.constant(2);
  if (!start || !limit || !delta) n.fail("start, limit and delta must be known at compile time");
  const DType dtype = start->dtype();
  if (delta->number(0) == 0) n.fail("delta is 0");
  const double span = std::ceil((limit->number(0) - start->number(0)) / delta->number(0));
  const auto count = static_cast<std::int64_t>(std::max(0.0, std::min(span, 1e15)));
  if (count > kMaxRange) n.fail(str("a range of ", count, " elements is too long"));
  Value* steps = n.b.iota(0, dtype, {count});
  Value* scaled = n.b.mul(steps, n.b.broadcast_to(n.b.reshape(n.in(2), {}), {count}));
  n.set(0, n.b.add(n.b.broadcast_to(n.b.reshape(n.in(0), {}), {count}), scaled));
}

void reshape(Node& n) {
  const Shape& from = n.in(0)->type.shape;
  Ints target = n.opset() < 5 ? n.attr_ints("shape") : n.ints_in(1);
  const bool allow_zero = n.attr("allowzero", std::int64_t{0}) != 0;
  std::int64_t known = 1;
  std::size_t open = target.size();
  for (std::size_t d = 0; d < target.size(); ++d) {
    if (target[d] == 0 && !allow_zero) {
      if (d >= from.size())
        n.fail(
            str("shape (", join(target, ","), ") copies dimension ", d, " which the input lacks"));
      target[d] = from[d];
    }
    if (target[d] == -1) {
      if (open != target.size()) n.fail("two sizes are -1");
      open = d;
    } else if (target[d] < 0 || __builtin_mul_overflow(known, target[d], &known)) {
      n.fail(str("shape (", join(target, ","), ") is not possible"));
    }
  }
  if (open != target.size()) {
    if (known == 0 || elements(from) % known != 0) {
      n.fail(str("input (", join(from, ","), ") does not fit shape (", join(target, ","), ")"));
    }
    target[open] = elements(from) / known;
  }
  n.set(0, n.b.reshape(n.in(0), checked_shape(n, target)));
}

void flatten(Node& n) {
  const Shape& from = n.in(0)->type.shape;
  const auto rank = static_cast<std::int64_t>(from.size());
  std::int64_t at = n.attr("axis", std::int64_t{1});
  if (at < -rank || at > rank) n.fail(str("axis ", at, " of a tensor of rank ", rank));
  if (at < 0) at += rank;
  Shape to{1, 1};
  for (std::int64_t d = 0; d < rank; ++d) to[d < at ? 0 : 1] *= from[static_cast<std::size_t>(d)];
  n.set(0, n.b.reshape(n.in(0), to));
}

// Axes are an attribute up to opset 12, an input later.
Ints listed_axes(const Node& n) {
  if (n.opset() < 13) return n.attr_ints("axes");
  return n.has(1) ? n.ints_in(1) : Ints{};
}

void squeeze(Node& n) {
  const Shape& from = n.in(0)->type.shape;
  const Ints dims = n.axes(listed_axes(n), from.size());
  const bool all = n.opset() < 13 ? !n.has_attr("axes") : !n.has(1);
  Shape to;
  for (std::size_t d = 0; d < from.size(); ++d) {
    const bool named = std::ranges::binary_search(dims, static_cast<std::int64_t>(d));
    if (named && from[d] != 1) n.fail(str("dimension ", d, " has size ", from[d], ", not 1"));
    if (!(named || (all && from[d] == 1))) to.push_back(from[d]);
  }
  n.set(0, n.b.reshape(n.in(0), to));
}

void unsqueeze(Node& n) {
  const Shape& from = n.in(0)->type.shape;
  const Ints raw = listed_axes(n);
  const Ints dims = n.axes(raw, from.size() + raw.size());
  Shape to;
  std::size_t next = 0;
  for (std::size_t d = 0; d < from.size() + dims.size(); ++d) {
    to.push_back(std::ranges::binary_search(dims, static_cast<std::int64_t>(d)) ? 1 : from[next++]);
  }
  n.set(0, n.b.reshape(n.in(0), checked_shape(n, to)));
}

void expand(Node& n) {
  const Ints wanted = n.ints_in(1);
  const Shape& from = n.in(0)->type.shape;
  Shape shape(std::max(from.size(), wanted.size()), 1);
  for (std::size_t d = 0; d < shape.size(); ++d) {
    const std::size_t back = shape.size() - 1 - d;
    const std::int64_t own = back < from.size() ? from[from.size() - 1 - back] : 1;
    const std::int64_t want = back < wanted.size() ? wanted[wanted.size() - 1 - back] : 1;
    if (own != want && own != 1 && want != 1)
      n.fail(str("(", join(from, ","), ") does not expand to (", join(wanted, ","), ")"));
    shape[d] = own == 1 ? want : own;
  }
  n.set(0, n.b.broadcast_to(n.in(0), checked_shape(n, shape)));
}

// Each dimension d becomes (repeats, d), then they merge.
void tile(Node& n) {
  Value* x = n.in(0);
  const Ints repeats = n.ints_in(1);
  if (repeats.size() != x->type.rank()) n.fail("repeats must name every dimension");
  Shape spread, merged;
  Ints dims;
  for (std::size_t d = 0; d < repeats.size(); ++d) {
    if (repeats[d] < 0) n.fail("repeats must not be negative");
    std::int64_t size = 0;
    if (__builtin_mul_overflow(repeats[d], x->type.shape[d], &size))
      n.fail("the result is too large");
    spread.push_back(repeats[d]);
    dims.push_back(static_cast<std::int64_t>(spread.size()));
    spread.push_back(x->type.shape[d]);
    merged.push_back(size);
  }
  checked_shape(n, merged);
  n.set(0, n.b.reshape(n.b.broadcast(x, dims, spread), merged));
}

}  // namespace

void add_shape_ops(TranslatorTable& t) {
  t["Constant"] = constant;
  t["ConstantOfShape"] = constant_of_shape;
  t["Shape"] = shape;
  t["Size"] = size;
  t["Range"] = range;
  t["Reshape"] = reshape;
  t["Flatten"] = flatten;
  t["Squeeze"] = squeeze;
  t["Unsqueeze"] = unsqueeze;
  t["Expand"] = expand;
  t["Tile"] = tile;
}

}  // namespace tessera
