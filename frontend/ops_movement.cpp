// Movement ops: transpose, slice, split, concat, pad, trilu.
#include <algorithm>
#include <limits>
#include <numeric>

#include "frontend/importer.h"
#include "ir/base/text.h"

namespace tessera {
namespace {

void transpose(Node& n) {
  const auto rank = static_cast<std::int64_t>(n.in(0)->type.rank());
  Ints perm = n.attr_ints("perm");
  if (!n.has_attr("perm")) {
    for (std::int64_t d = rank; d-- > 0;) perm.push_back(d);
  }
  n.set(0, n.b.transpose(n.in(0), perm));
}

struct SliceSpec {
  Ints starts, ends, axes, steps;
};

SliceSpec slice_spec(const Node& n) {
  SliceSpec s;
  if (n.opset() < 10) {
    s = {n.attr_ints("starts"), n.attr_ints("ends"), n.attr_ints("axes"), {}};
  } else {
    s = {n.ints_in(1), n.ints_in(2), n.has(3) ? n.ints_in(3) : Ints{},
         n.has(4) ? n.ints_in(4) : Ints{}};
  }
  if (s.axes.empty()) {
    s.axes.resize(s.starts.size());
    std::iota(s.axes.begin(), s.axes.end(), 0);
  }
  if (s.steps.empty()) s.steps.assign(s.starts.size(), 1);
  if (s.ends.size() != s.starts.size() || s.axes.size() != s.starts.size() ||
      s.steps.size() != s.starts.size()) {
    n.fail("starts, ends, axes and steps differ in length");
  }
  return s;
}

// Negative positions count from the end, others are clamped: ends of 2^63-1 are common.
void slice(Node& n) {
  const SliceSpec s = slice_spec(n);
  Value* x = n.in(0);
  for (std::size_t i = 0; i < s.starts.size(); ++i) {
    const std::int64_t dim = n.axis(s.axes[i], x->type.rank());
    const std::int64_t size = x->type.shape[static_cast<std::size_t>(dim)];
    const std::int64_t step = s.steps[i];
    if (step == 0 || step == std::numeric_limits<std::int64_t>::min())
      n.fail("step is 0 or out of range");
    const auto position = [&](std::int64_t at, std::int64_t low, std::int64_t high) {
      return std::clamp(at < 0 ? (at < -size ? -1 : at + size) : at, low, high);
    };
    std::int64_t start =
        step > 0 ? position(s.starts[i], 0, size) : position(s.starts[i], -1, size - 1);
    std::int64_t stop = step > 0 ? position(s.ends[i], 0, size) : position(s.ends[i], -1, size - 1);
    if (step > 0 ? stop < start : stop > start) stop = start;
    if (size == 0 || (step < 0 && start < 0)) start = stop = 0;
    if (step < 0 && start == stop) {
      x = n.b.slice(x, dim, 0, 0);
    } else {
      x = n.b.slice(x, dim, start, stop, step);
    }
  }
  n.set(0, x);
}

// Sizes: an attribute (2, 11), an input (13), or equal parts, with num_outputs the last one smaller
// (18).
void split(Node& n) {
  Value* x = n.in(0);
  const std::int64_t dim = n.axis(n.attr("axis", std::int64_t{0}), x->type.rank());
  const std::int64_t size = x->type.shape[static_cast<std::size_t>(dim)];
  const auto outputs = static_cast<std::int64_t>(n.output_count());
  Ints sizes = n.opset() < 13 ? n.attr_ints("split") : (n.has(1) ? n.ints_in(1) : Ints{});
  if (sizes.empty()) {
    const std::int64_t count = n.attr("num_outputs", outputs);
    if (count != outputs || count < 1)
      n.fail(str("num_outputs is ", count, ", the node has ", outputs, " outputs"));
    if (n.opset() < 18 && size % count != 0)
      n.fail(str("dimension ", dim, " of size ", size, " does not split into ", count,
                 " equal parts"));
    const std::int64_t piece = (size + count - 1) / count;
    for (std::int64_t i = 0; i < count; ++i)
      sizes.push_back(std::clamp<std::int64_t>(size - i * piece, 0, piece));
  }
  std::int64_t total = 0;
  for (std::int64_t piece : sizes) {
    if (piece < 0 || __builtin_add_overflow(total, piece, &total))
      n.fail("a split size is negative or too large");
  }
  if (total != size || static_cast<std::int64_t>(sizes.size()) != outputs) {
    n.fail(str("split sizes (", join(sizes, ","), ") do not add up to dimension ", dim, " of size ",
               size));
  }
  std::int64_t at = 0;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    n.set(i, n.b.slice(x, dim, at, at + sizes[i]));
    at += sizes[i];
  }
}

void concat(Node& n) {
  const std::int64_t dim = n.axis(n.attr("axis", std::int64_t{0}), n.in(0)->type.rank());
  std::vector<Value*> parts;
  for (std::size_t i = 0; i < n.input_count(); ++i) parts.push_back(n.in(i));
  n.set(0, parts.size() == 1 ? parts[0] : n.b.emit(OpKind::Concat, parts, {{"dim", dim}}));
}

// Pads are an attribute up to opset 10, an input later. Negative pads cut.
void pad(Node& n) {
  Value* x = n.in(0);
  if (n.attr("mode", std::string("constant")) != "constant")
    n.fail("only mode constant is supported");
  const Ints pads = n.opset() < 11 ? n.attr_ints("pads") : n.ints_in(1);
  double value = n.opset() < 11 ? n.attr("value", 0.0) : 0.0;
  if (n.opset() >= 11 && n.has(2)) value = n.number_in(2);
  Ints axes(x->type.rank());
  std::iota(axes.begin(), axes.end(), 0);
  if (n.opset() >= 18 && n.has(3)) {
    axes = n.ints_in(3);
    for (std::int64_t& axis : axes) axis = n.axis(axis, x->type.rank());
  }
  if (pads.size() != 2 * axes.size())
    n.fail(str(pads.size(), " pads for ", axes.size(), " dimensions"));
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const std::int64_t low = pads[i], high = pads[i + axes.size()];
    const std::int64_t size = x->type.shape[static_cast<std::size_t>(axes[i])];
    if (low > (1 << 30) || high > (1 << 30) || -low > size || -high > size || size + low + high < 0)
      n.fail("pads are out of range");
    const std::int64_t from = std::max<std::int64_t>(0, -low);
    x = n.b.slice(x, axes[i], from, std::max(from, size - std::max<std::int64_t>(0, -high)));
    if (low <= 0 && high <= 0) continue;
    x = n.b.emit(OpKind::Pad, {x},
                 {{"dim", axes[i]},
                  {"low", std::max<std::int64_t>(0, low)},
                  {"high", std::max<std::int64_t>(0, high)},
                  {"value", value}});
  }
  n.set(0, x);
}

// The triangle comes from two iotas: it folds for constants, and is cut like any other value.
void trilu(Node& n) {
  Value* x = n.in(0);
  const std::size_t rank = x->type.rank();
  if (rank < 2) n.fail("needs at least two dimensions");
  const std::int64_t k = n.has(1) ? n.int_in(1) : 0;
  const Shape matrix{x->type.shape[rank - 2], x->type.shape[rank - 1]};
  Value* rows = n.b.iota(0, DType::I64, matrix);
  Value* columns = n.b.iota(1, DType::I64, matrix);
  Value* shifted = n.b.add(rows, n.b.fill_like(static_cast<double>(k), rows));
  const bool upper = n.attr("upper", std::int64_t{1}) != 0;
  Value* keep = n.b.emit(upper ? OpKind::GreaterEqual : OpKind::LessEqual, {columns, shifted});
  n.set(0,
        n.b.emit(OpKind::Select, {n.b.broadcast_to(keep, x->type.shape), x, n.b.fill_like(0, x)}));
}

}  // namespace

void add_movement_ops(TranslatorTable& t) {
  t["Transpose"] = transpose;
  t["Slice"] = slice;
  t["Split"] = split;
  t["Concat"] = concat;
  t["Pad"] = pad;
  t["Trilu"] = trilu;
}

}  // namespace tessera
