// Which result types follow from which operand types: the sharding rules V5 to V10, read off the
// index map.
#include <algorithm>

#include "ir/base/text.h"
#include "ir/op_def.h"
#include "ir/verify.h"

namespace tessera {
namespace {

struct Deriver {
  const Op& op;
  const Grid& grid;
  const IndexMap map;
  LoopAxes loops = {};
  Derived out = {};

  void problem(const std::string& text) { out.problems.push_back(text); }

  // V5: every dimension on a loop is cut by the same axes.
  void collect(const std::string& term, const Value& value) {
    for (std::size_t d = 0; d < term.size(); ++d) {
      const auto [found, fresh] = loops.try_emplace(term[d], value.type.cuts[d]);
      if (fresh || found->second == value.type.cuts[d]) continue;
      problem(str("V5: loop '", term[d], "' of ", map.text(), " is cut by {",
                  grid.text(found->second), "} and by {", grid.text(value.type.cuts[d]),
                  "} (dimension ", d, " of %", value.name, ")"));
    }
  }

  void collect_loops() {
    for (std::size_t i = 0; i < map.operands.size(); ++i) collect(map.operands[i], *op.operands[i]);
    for (std::size_t i = 0; i < map.results.size(); ++i) {  // loops that only results carry
      for (std::size_t d = 0; d < map.results[i].size(); ++d) {
        loops.try_emplace(map.results[i][d], op.results[i]->type.cuts[d]);
      }
    }
  }

  void check_loops() {
    Axes used;
    for (const auto& [loop, axes] : loops) {
      if (!axes.empty() && (map.is_whole(loop) || map.is_expandable(loop))) {
        problem(str("V7: loop '", loop, "' of ", map.text(), " must be whole, is cut by {",
                    grid.text(axes), "}"));
      }
      if (intersects(used, axes)) {
        problem(str("V6: {", grid.text(axes), "} cuts loop '", loop, "' and another loop of ",
                    map.text()));
      }
      used = concatenated(std::move(used), axes);
    }
  }

  // Operands that carry partials, checked against the op's linearity (V9). Returns what passes to
  // the results.
  Partial passing() {
    const OpDef& def = op_def(op.kind);
    std::vector<std::size_t> partial;
    for (std::size_t i = 0; i < op.operands.size(); ++i) {
      if (!op.operands[i]->type.partial.axes.empty()) partial.push_back(i);
    }
    if (partial.empty()) return {};
    Partial first = op.operands[partial[0]]->type.partial;
    for (std::size_t i : partial) {
      if (!(op.operands[i]->type.partial == first)) {
        problem(str("V9: operands are partial over different axes or operators (%",
                    op.operands[i]->name, ")"));
      }
    }
    if (const std::string why = refusal(def, partial, first); !why.empty()) {
      problem(str("V9: ", mnemonic(op.kind), " cannot take %", op.operands[partial[0]]->name,
                  ", which is partial(", name(first.op), ": ", grid.text(first.axes), "): ", why));
    }
    for (const auto& [loop, axes] : loops) {
      if (intersects(axes, first.axes)) {
        problem(str("V9: loop '", loop, "' is cut over axes that an operand is partial over"));
      }
    }
    return first;
  }

  std::string refusal(const OpDef& def, const std::vector<std::size_t>& partial,
                      const Partial& value) const {
    const bool same_reduction = family(op.kind) == OpFamily::Reduction && def.reduce == value.op &&
                                op.kind != OpKind::ArgMax && op.kind != OpKind::CumSum;
    if (value.op != ReduceOp::Sum && !def.moves_only && !same_reduction) {
      return str("only movement and the same reduction pass a ", name(value.op), " partial");
    }
    if (value.op == ReduceOp::Sum && op.kind == OpKind::Cast &&
        !(is_float(op.operands[0]->type.dtype) && is_float(op.results[0]->type.dtype))) {
      return "this cast is not linear";
    }
    if (same_reduction) return {};
    switch (def.linear) {
      case Linearity::Opaque:
        return "it is not linear";
      case Linearity::Joint:
        return partial.size() == op.operands.size() ? "" : "all operands must be partial, or none";
      case Linearity::Multi:
        return partial.size() == 1 ? "" : "at most one operand may be partial";
      case Linearity::First:
        return partial.size() == 1 && partial[0] == 0 ? ""
                                                      : "only the first operand may be partial";
      case Linearity::Branches:
        return partial[0] != 0 && partial.size() + 1 == op.operands.size()
                   ? ""
                   : "all operands but the first, or none";
    }
    return {};
  }

  // V8: a cut loop that a result lacks makes it partial.
  Type result_type(const std::string& term, const Value& result, const Partial& passed) {
    Type type = result.type.logical();
    for (std::size_t d = 0; d < term.size(); ++d) type.cuts[d] = loops[term[d]];
    Axes reduced;
    for (const auto& [loop, axes] : loops) {
      if (term.find(loop) == std::string::npos) reduced = concatenated(std::move(reduced), axes);
    }
    type.partial = passed;
    if (!reduced.empty()) {
      const ReduceOp own = op_def(op.kind).reduce;
      if (!passed.axes.empty() && passed.op != own)
        problem("V9: two different reduce operators would mix");
      type.partial = {own, concatenated(passed.axes, reduced)};
      std::ranges::sort(type.partial.axes);
    }
    return type;
  }

  Derived run() {
    collect_loops();
    check_loops();
    const Partial passed = passing();
    for (std::size_t i = 0; i < map.results.size(); ++i) {
      out.results.push_back(result_type(map.results[i], *op.results[i], passed));
    }
    return std::move(out);
  }
};

struct CollectiveDeriver {
  const Op& op;
  const Grid& grid;
  Derived out = {};

  void problem(const std::string& text) {
    out.problems.push_back(str("V10: ", mnemonic(op.kind), " ", text));
  }

  bool dim_fits(const char* attr) {
    const std::int64_t dim = op.attrs.integer(attr);
    if (dim >= 0 && dim < static_cast<std::int64_t>(op.operands[0]->type.rank())) return true;
    problem(str(attr, " ", dim, " of a value of rank ", op.operands[0]->type.rank()));
    return false;
  }

  void reduce(Type& type, const Axes& axes) {
    for (AxisId axis : axes) {
      if (!contains(type.partial.axes, axis)) {
        problem(str("over ", grid.text(axes), ": operand is not partial over ", grid.name(axis)));
      }
    }
    type.partial.axes = without(type.partial.axes, axes);
  }

  void append(Type& type, std::size_t dim, const Axes& axes) {
    if (intersects(type.used_axes(), axes))
      problem(str("over ", grid.text(axes), ": an axis is in use already"));
    type.cuts[dim] = concatenated(type.cuts[dim], axes);
  }

  void strip(Type& type, std::size_t dim, const Axes& axes) {
    if (!ends_with(type.cuts[dim], axes)) {
      problem(str("over ", grid.text(axes), ": dimension ", dim, " is cut by {",
                  grid.text(type.cuts[dim]), "}, which does not end so"));
      return;
    }
    type.cuts[dim].resize(type.cuts[dim].size() - axes.size());
  }

  Derived run() {
    Type type = op.operands[0]->type;
    if (op.kind == OpKind::Reshard) return {{op.results[0]->type}, {}};
    if (op.kind == OpKind::Wait) return {{type}, {}};
    const Axes& over = op.attrs.axes("over");
    const auto dim = [&](const char* attr) {
      return static_cast<std::size_t>(op.attrs.integer(attr));
    };
    if (op.kind == OpKind::AllReduce) {
      reduce(type, over);
    } else if (op.kind == OpKind::AllGather && dim_fits("dim")) {
      strip(type, dim("dim"), over);
    } else if (op.kind == OpKind::ReduceScatter && dim_fits("dim")) {
      reduce(type, over);
      append(type, dim("dim"), over);
    } else if (op.kind == OpKind::SliceToShard && dim_fits("dim")) {
      append(type, dim("dim"), over);
    } else if (op.kind == OpKind::AllToAll && dim_fits("from") && dim_fits("to")) {
      strip(type, dim("from"), over);
      append(type, dim("to"), over);
    } else if (op.kind == OpKind::KeepOnFirst) {
      if (intersects(type.used_axes(), over)) problem("an axis is in use already");
      if (!type.partial.axes.empty() && type.partial.op != ReduceOp::Sum)
        problem("operand is a partial of another operator");
      type.partial = {ReduceOp::Sum, concatenated(type.partial.axes, over)};
      std::ranges::sort(type.partial.axes);
    }
    out.results.push_back(std::move(type));
    return std::move(out);
  }
};

}  // namespace

LoopAxes loops_of(const Op& op, const IndexMap& map) {
  Deriver deriver{op, Grid(), map};
  deriver.collect_loops();
  return deriver.loops;
}

Derived derive_types(const Op& op, const Grid& grid) {
  if (family(op.kind) == OpFamily::Collective) return derive_collective(op, grid);
  return Deriver{op, grid, index_map(op)}.run();
}

Derived derive_collective(const Op& op, const Grid& grid) {
  return CollectiveDeriver{op, grid}.run();
}

}  // namespace tessera
