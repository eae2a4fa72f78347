// How values lie and how ops need them, under one choice of grid and layout.
#include <algorithm>

#include "passes/search/op_types.h"
#include "passes/search/pricing.h"
#include "passes/sharded/loop_assignment.h"

namespace tessera {

// Axes are whole here: of grouped heads, the larger share takes a colour's axis.
Axes Pricing::own_axes(const Role& role) const {
  const Axes& color = role.color == Color::X ? x_ : y_;
  switch (role.kind) {
    case Role::None:
    case Role::Tokens:
      return {};
    case Role::Batch:
      return batch_;
    case Role::X:
      return x_;
    case Role::Y:
      return y_;
    case Role::Vocabulary:
      return concatenated(y_, x_);
    case Role::Groups:
    case Role::Queries: {
      const int parts = grid_.size(color);
      const bool groups = 2 * group_parts(role.groups, role.queries, parts) > parts;
      return groups == (role.kind == Role::Groups) ? color : Axes{};
    }
  }
  return {};
}

Axes Pricing::spare_axes(const Role& role) const {
  if (role.kind == Role::Tokens) return choice_.scatter_tokens ? y_ : Axes{};
  if (!choice_.scatter_features) return {};
  if (role.kind == Role::Y) return x_;
  const bool heads = role.kind == Role::Groups || role.kind == Role::Queries;
  if (!heads || role.color != Color::Y) return {};
  const bool to_groups =
      spare_cuts_groups(role.groups, role.queries, grid_.size(y_), grid_.size(x_));
  return to_groups == (role.kind == Role::Groups) ? x_ : Axes{};
}

Type Pricing::home(const ValueKind& kind, bool zero1) const {
  Type type = kind.type;
  const bool stored = kind.storage != Storage::Activation;
  std::vector<std::size_t> order(type.rank());
  for (std::size_t d = 0; d < order.size(); ++d) order[d] = d;
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) {
    return own_axes(kind.roles[a]).size() > own_axes(kind.roles[b]).size();
  });
  Axes used;
  const auto take = [&](std::size_t d, const Axes& axes) {
    if (intersects(used, axes)) return;
    type.cuts[d] = concatenated(type.cuts[d], axes);
    used = concatenated(std::move(used), axes);
  };
  for (const std::size_t d : order) {
    if (kind.roles[d].kind == Role::Batch)
      type.shape[d] = (type.shape[d] + choice_.micro_batches - 1) / choice_.micro_batches;
    if (!stored || kind.roles[d].kind != Role::Batch) take(d, own_axes(kind.roles[d]));
  }
  if (!stored) {
    for (std::size_t d = 0; d < type.rank(); ++d) {
      if (type.cuts[d] == own_axes(kind.roles[d])) take(d, spare_axes(kind.roles[d]));
    }
    return type;
  }
  cut_over_z(type, grid_);
  if (data_axis_ < 0 || kind.storage == Storage::Param) return type;
  if (kind.storage == Storage::Gradient && choice_.micro_batches > 1) {
    type.partial.axes = {data_axis_};
  } else if (zero1) {
    cut_over(type, grid_, data_axis_);
  }
  return type;
}

Pricing::Shape Pricing::shape_of(const DistinctOp& op, bool zero1) const {
  if (op.follows) return follower_shape(op, zero1);
  LoopAxes wanted, spare;
  for (const auto& [loop, role] : op.loops) {
    wanted[loop] = own_axes(role);
    if (Axes more = spare_axes(role); !more.empty()) spare[loop] = std::move(more);
  }
  Shape shape;
  shape.loops = resolve_loops(op.map, wanted, spare);
  for (std::size_t i = 0; i < op.operands.size(); ++i) {
    const bool moved = op.operands[i] >= 0;
    shape.operands.push_back(
        moved ? need_type(at(op.operands[i], zero1), op.map.operands[i], shape.loops) : Type());
  }
  for (std::size_t i = 0; i < op.results.size(); ++i)
    shape.results.push_back(
        made_type(op.kind, at(op.results[i], zero1), op.map.results[i], shape.loops));
  return shape;
}

// Operands as the one that is cut most is stored, without partial sums.
Pricing::Shape Pricing::follower_shape(const DistinctOp& op, bool zero1) const {
  const auto axes = [&](int kind) {
    std::size_t count = 0;
    for (const Axes& cut : at(kind, zero1).cuts) count += cut.size();
    return count;
  };
  int finest = -1;
  for (const int kind : op.operands) {
    if (kind >= 0 && (finest < 0 || axes(kind) > axes(finest))) finest = kind;
  }
  Shape shape;
  const auto as_finest = [&](int kind) {
    Type type = at(kind, zero1);
    type.partial = {};
    if (finest >= 0 && at(finest, zero1).shape == type.shape) type.cuts = at(finest, zero1).cuts;
    return type;
  };
  for (const int kind : op.operands) {
    shape.operands.push_back(kind < 0 ? Type() : as_finest(kind));
    if (op.in_micro && kind >= 0) shape.operands.back() = at(kind, zero1);  // sums stay partial
  }
  for (const int kind : op.results)
    shape.results.push_back(op.in_micro ? at(kind, zero1) : as_finest(kind));
  return shape;
}

// Whether an axis is refined for grouped heads: its two parts have communicators of their own.
bool Pricing::refines() const {
  return std::ranges::any_of(data_.kinds, [&](const ValueKind& kind) {
    return std::ranges::any_of(kind.roles, [&](const Role& role) {
      if (role.kind != Role::Groups) return false;
      const int parts = grid_.size(role.color == Color::X ? x_ : y_);
      const int f = group_parts(role.groups, role.queries, parts);
      return f != 1 && f != parts;
    });
  });
}

}  // namespace tessera
