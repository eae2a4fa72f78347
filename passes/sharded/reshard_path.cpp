#include "passes/sharded/reshard_path.h"

#include <algorithm>
#include <queue>
#include <unordered_map>

#include "ir/base/text.h"
#include "passes/cost/op_cost.h"

namespace tessera {
namespace {

constexpr double kChargePerCollective =
    256;  // bytes' worth of latency: prefers fewer moves among equals
constexpr double kChargePerLocalMove = 1;

bool is_prefix(const Axes& prefix, const Axes& of) {
  return prefix.size() <= of.size() && std::equal(prefix.begin(), prefix.end(), of.begin());
}

// Cuts and partial axes, a character each: all that differs between the types of one path.
std::string sharding_key(const Type& type) {
  std::string key;
  const auto add = [&](const Axes& axes) {
    for (const AxisId axis : axes) key += static_cast<char>('0' + axis);
    key += ',';
  };
  for (const Axes& axes : type.cuts) add(axes);
  add(type.partial.axes);
  return key;
}

class Search {
 public:
  Search(const Type& from, const Type& to, const Grid& grid) : from_(from), to_(to), grid_(grid) {}

  ReshardPath run() {
    push(from_, 0, nullptr, {});
    while (!queue_.empty()) {
      const auto [cost, key] = queue_.top();
      queue_.pop();
      Node& node = nodes_.at(*key);
      if (node.done) continue;
      node.done = true;
      if (node.type == to_) return path_to(key);
      expand(node.type, cost, key);  // nodes stay where they are when others join them
    }
    internal_error(__FILE__, __LINE__,
                   str("no reshard from ", to_text(from_, grid_), " to ", to_text(to_, grid_)));
  }

 private:
  // By their place in nodes_, as keys do not move.
  using Key = const std::string*;
  struct Node {
    Type type;
    double cost = 0;
    Key previous = nullptr;
    ReshardMove move;  // without its result, which is `type`
    bool done = false;
  };

  void push(const Type& type, double cost, Key previous, ReshardMove move) {
    const auto [found, fresh] = nodes_.try_emplace(sharding_key(type));
    Node& node = found->second;
    if (!fresh && (node.done || node.cost <= cost)) return;
    if (fresh) node.type = type;
    node.cost = cost;
    node.previous = previous;
    node.move = std::move(move);
    queue_.push({cost, &found->first});
  }

  // Whether appending `axis` to dimension `dim` leads towards the target.
  bool fits_target(const Type& type, std::size_t dim, AxisId axis) const {
    Axes next = type.cuts[dim];
    next.push_back(axis);
    return is_prefix(next, to_.cuts[dim]);
  }

  void try_move(const Type& type, double cost, Key key, ReshardMove move, const Type& result,
                double factor) {
    const bool local = move.kind == OpKind::SliceToShard || move.kind == OpKind::KeepOnFirst;
    const double bytes = static_cast<double>(largest_local_bytes(type, grid_)) * factor;
    push(result, cost + bytes + (local ? kChargePerLocalMove : kChargePerCollective), key,
         std::move(move));
  }

  void expand(const Type& type, double cost, Key key) {
    for (AxisId axis : type.partial.axes) {
      const double p = grid_.size(axis);
      Type reduced = type;
      std::erase(reduced.partial.axes, axis);
      if (!contains(to_.partial.axes, axis)) {
        try_move(type, cost, key, {OpKind::AllReduce, {axis}, -1, -1, {}}, reduced,
                 2 * (p - 1) / p);
      }
      for (std::size_t d = 0; d < type.rank(); ++d) {
        if (!fits_target(type, d, axis)) continue;
        Type scattered = reduced;
        scattered.cuts[d].push_back(axis);
        try_move(type, cost, key,
                 {OpKind::ReduceScatter, {axis}, static_cast<std::int64_t>(d), -1, {}}, scattered,
                 (p - 1) / p);
      }
    }
    for (std::size_t d = 0; d < type.rank(); ++d) expand_dim(type, cost, key, d);
    for (AxisId axis : to_.partial.axes) {
      if (contains(type.used_axes(), axis)) continue;
      Type kept = type;
      kept.partial = {ReduceOp::Sum, concatenated(type.partial.axes, {axis})};
      std::ranges::sort(kept.partial.axes);
      try_move(type, cost, key, {OpKind::KeepOnFirst, {axis}, -1, -1, {}}, kept, 0);
    }
  }

  void expand_dim(const Type& type, double cost, Key key, std::size_t d) {
    const auto dim = static_cast<std::int64_t>(d);
    const Axes used = type.used_axes();
    for (AxisId axis : to_.cuts[d]) {
      if (contains(used, axis) || !fits_target(type, d, axis)) continue;
      Type sliced = type;
      sliced.cuts[d].push_back(axis);
      try_move(type, cost, key, {OpKind::SliceToShard, {axis}, dim, -1, {}}, sliced, 0);
    }
    if (type.cuts[d].empty() || is_prefix(type.cuts[d], to_.cuts[d])) return;
    const AxisId minor = type.cuts[d].back();
    const double p = grid_.size(minor);
    Type gathered = type;
    gathered.cuts[d].pop_back();
    try_move(type, cost, key, {OpKind::AllGather, {minor}, dim, -1, {}}, gathered, p - 1);
    for (std::size_t t = 0; t < type.rank(); ++t) {
      if (t == d || !fits_target(type, t, minor)) continue;
      Type moved = gathered;
      moved.cuts[t].push_back(minor);
      try_move(type, cost, key, {OpKind::AllToAll, {minor}, static_cast<std::int64_t>(t), dim, {}},
               moved, (p - 1) / p);
    }
  }

  ReshardPath path_to(Key key) const {
    ReshardPath path;
    path.bytes = nodes_.at(*key).cost;
    for (const Node* node = &nodes_.at(*key); node->previous != nullptr;
         node = &nodes_.at(*node->previous)) {
      path.moves.push_back(node->move);
      path.moves.back().result = node->type;
    }
    std::ranges::reverse(path.moves);
    return path;
  }

  const Type& from_;
  const Type& to_;
  const Grid& grid_;
  std::unordered_map<std::string, Node> nodes_;
  struct Entry {
    double cost;
    Key key;
    bool operator>(const Entry& other) const {
      return cost != other.cost ? cost > other.cost : *key > *other.key;
    }
  };
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue_;
};

// Joins `next` into `last` when one collective over both axes does the same.
bool join_moves(ReshardMove& last, const ReshardMove& next) {
  if (last.kind != next.kind || last.dim != next.dim || last.kind == OpKind::AllToAll) return false;
  const bool outer_later = last.kind == OpKind::AllGather;  // the minor axis was gathered first
  last.over = outer_later ? concatenated(next.over, last.over) : concatenated(last.over, next.over);
  if (last.kind == OpKind::AllReduce || last.kind == OpKind::KeepOnFirst)
    std::ranges::sort(last.over);
  last.result = next.result;
  return true;
}

}  // namespace

ReshardPath cheapest_reshard(const Type& from, const Type& to, const Grid& grid) {
  TESSERA_CHECK(from.dtype == to.dtype && from.shape == to.shape,
                "a reshard changes only the sharding");
  const ReshardPath steps = Search(from, to, grid).run();
  ReshardPath path;
  path.bytes = steps.bytes;
  for (const ReshardMove& move : steps.moves) {
    if (path.moves.empty() || !join_moves(path.moves.back(), move)) path.moves.push_back(move);
  }
  return path;
}

namespace {

// A pair of types without the dimensions that no axis cuts, its axes numbered by first use.
class CanonicalPair {
 public:
  CanonicalPair(const Type& from, const Type& to, const Grid& grid) : grid_(grid) {
    for (std::size_t d = 0; d < from.rank(); ++d) {
      if (!from.cuts[d].empty() || !to.cuts[d].empty()) dims_.push_back(d);
    }
    from_ = renamed(from);
    to_ = renamed(to);
  }

  std::string key() const {
    std::string text = str(sharding_key(from_), static_cast<int>(from_.partial.op), ' ',
                           sharding_key(to_), static_cast<int>(to_.partial.op), ' ');
    for (const AxisId axis : axes_) text += grid_.size(axis) > 1 ? '+' : '-';
    return text;
  }

  // Of one size for all, so that the answer does not depend on who asks first.
  std::vector<ReshardMove> moves() const {
    std::vector<GridAxis> axes;
    for (const AxisId axis : axes_)
      axes.push_back(
          {std::string(1, static_cast<char>('a' + axes.size())), std::min(grid_.size(axis), 2)});
    return cheapest_reshard(from_, to_, Grid(axes)).moves;
  }

  Axes real(const Axes& axes) const {
    Axes found;
    for (const AxisId axis : axes) found.push_back(axes_[static_cast<std::size_t>(axis)]);
    return found;
  }

  // What a move turns `type` into.
  Type after(const ReshardMove& move, Type type) const {
    for (std::size_t d = 0; d < dims_.size(); ++d) type.cuts[dims_[d]] = real(move.result.cuts[d]);
    type.partial = {move.result.partial.op, real(move.result.partial.axes)};
    std::ranges::sort(type.partial.axes);
    return type;
  }

 private:
  Type renamed(const Type& type) {
    const auto rename = [&](const Axes& axes) {
      Axes found;
      for (const AxisId axis : axes) {
        const auto known = std::ranges::find(axes_, axis);
        found.push_back(static_cast<AxisId>(known - axes_.begin()));
        if (known == axes_.end()) axes_.push_back(axis);
      }
      return found;
    };
    const std::int64_t size = dims_.size() <= 3 ? 1 << 14 : dims_.size() <= 6 ? 256 : 16;
    Type made(DType::F32, Shape(dims_.size(), size));
    for (std::size_t d = 0; d < dims_.size(); ++d) made.cuts[d] = rename(type.cuts[dims_[d]]);
    made.partial = {type.partial.op, rename(type.partial.axes)};
    std::ranges::sort(made.partial.axes);
    return made;
  }

  const Grid& grid_;
  std::vector<std::size_t> dims_;
  Axes axes_;
  Type from_, to_;
};

}  // namespace

void each_collective(
    const Type& from, const Type& to, const Grid& grid,
    const std::function<void(OpKind kind, const Axes& over, double bytes)>& visit) {
  if (from == to) return;
  static thread_local std::unordered_map<std::string, std::vector<ReshardMove>> known;
  const CanonicalPair pair(from, to, grid);
  const auto [found, fresh] = known.try_emplace(pair.key());
  if (fresh) found->second = pair.moves();
  Type at = from;
  for (const ReshardMove& move : found->second) {
    Type next = pair.after(move, at);
    const Type& larger = move.kind == OpKind::AllGather ? next : at;
    if (communicates(move.kind)) {
      visit(move.kind, pair.real(move.over),
            static_cast<double>(largest_local_bytes(larger, grid)));
    }
    at = std::move(next);
  }
}

}  // namespace tessera
