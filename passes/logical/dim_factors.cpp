#include "passes/logical/dim_factors.h"

#include <algorithm>

#include "ir/base/reshape_groups.h"
#include "ir/op_def.h"

namespace tessera {
namespace {

// Each cut point divides the next larger one, and all divide the size.
bool is_chain(const std::set<std::int64_t>& cuts, std::int64_t size) {
  std::int64_t previous = 1;
  for (std::int64_t cut : cuts) {
    if (cut % previous != 0) return false;
    previous = cut;
  }
  return size % previous == 0;
}

// Slices of one value along one dimension that cut it into equal pieces at multiples of the piece.
bool are_equal_pieces(const Op& slice) {
  const std::int64_t dim = slice.attrs.integer("dim");
  const std::int64_t size = slice.operand(0)->type.shape[static_cast<std::size_t>(dim)];
  const std::int64_t piece = slice.result()->type.shape[static_cast<std::size_t>(dim)];
  if (piece <= 0 || piece == size || size % piece != 0) return false;
  return std::ranges::all_of(slice.operand(0)->users, [&](const Op* user) {
    if (user->kind != OpKind::Slice || user->attrs.integer("dim") != dim) return true;
    return user->attrs.integer("step") == 1 && user->attrs.integer("start") % piece == 0 &&
           user->result()->type.shape[static_cast<std::size_t>(dim)] == piece;
  });
}

}  // namespace

DimFactors::DimFactors(const Func& func) {
  add_values(func);
  atomic_.assign(parent_.size(), 0);
  cuts_.resize(parent_.size());
  for (const auto& op : func.ops()) tie_op(*op);
  mark_borders(func);
  std::vector<char> by_root(parent_.size(), 0);
  for (std::size_t i = 0; i < parent_.size(); ++i) {
    if (atomic_[i] != 0) by_root[static_cast<std::size_t>(root(static_cast<int>(i)))] = 1;
  }
  atomic_ = by_root;
  for (bool changed = true; changed;) {
    changed = false;
    for (const auto& op : func.ops()) changed |= propagate(*op);
  }
}

void DimFactors::add_values(const Func& func) {
  const auto add = [&](const Value* value) {
    first_node_[value] = static_cast<int>(parent_.size());
    for (std::int64_t size : value->type.shape) {
      parent_.push_back(static_cast<int>(parent_.size()));
      sizes_.push_back(size);
    }
  };
  for (const Arg& arg : func.args()) add(arg.value.get());
  for (const auto& op : func.ops()) {
    for (const auto& result : op->results) add(result.get());
  }
}

int DimFactors::node(const Value* value, std::size_t dim) const {
  return first_node_.at(value) + static_cast<int>(dim);
}

int DimFactors::root(int node) const {
  while (parent_[static_cast<std::size_t>(node)] != node) {
    int& up = parent_[static_cast<std::size_t>(node)];
    up = parent_[static_cast<std::size_t>(up)];
    node = up;
  }
  return node;
}

void DimFactors::tie(int a, int b) { parent_[static_cast<std::size_t>(root(b))] = root(a); }

void DimFactors::tie_op(const Op& op) {
  const IndexMap map = index_map(op);
  std::map<char, int> seen;
  const bool refinable = op.kind == OpKind::Reshape || op.kind == OpKind::Slice;
  const auto visit = [&](const std::string& term, const Value* value) {
    for (std::size_t d = 0; d < term.size(); ++d) {
      const int at = node(value, d);
      const auto [found, fresh] = seen.try_emplace(term[d], at);
      if (!fresh) tie(found->second, at);
      const bool needs_whole = map.is_whole(term[d]) || map.is_expandable(term[d]);
      if (needs_whole && !refinable) atomic_[static_cast<std::size_t>(at)] = 1;
    }
  };
  for (std::size_t i = 0; i < map.operands.size(); ++i) visit(map.operands[i], op.operands[i]);
  for (std::size_t i = 0; i < map.results.size(); ++i) visit(map.results[i], op.results[i].get());
  if (op.kind == OpKind::Iota || op.kind == OpKind::ScatterAdd) {
    atomic_[static_cast<std::size_t>(
        node(op.result(), static_cast<std::size_t>(op.attrs.integer("dim"))))] = 1;
  }
  if (op.kind == OpKind::Gather) {
    atomic_[static_cast<std::size_t>(
        node(op.operand(0), static_cast<std::size_t>(op.attrs.integer("dim"))))] = 1;
  }
}

// The function's inputs and outputs keep their shapes; parameters may change theirs.
void DimFactors::mark_borders(const Func& func) {
  const auto mark = [&](const Value* value) {
    for (std::size_t d = 0; d < value->type.rank(); ++d)
      atomic_[static_cast<std::size_t>(node(value, d))] = 1;
  };
  for (const Arg& arg : func.args()) {
    if (arg.kind != ArgKind::Param) mark(arg.value.get());
  }
  for (const FuncResult& result : func.results) mark(result.value);
}

bool DimFactors::add_cuts(int at, const Cuts& cuts) {
  Cuts& own = cuts_[static_cast<std::size_t>(root(at))];
  const std::size_t before = own.size();
  own.insert(cuts.begin(), cuts.end());
  return own.size() != before;
}

bool DimFactors::propagate(const Op& op) {
  if (op.kind == OpKind::Reshape) return propagate_reshape(op);
  if (op.kind == OpKind::Slice) return propagate_slice(op);
  return false;
}

// All cut points of a group's flattened extent, from both sides, are cut points of the dimensions
// on both sides.
bool DimFactors::propagate_reshape(const Op& op) {
  bool changed = false;
  for (const ReshapeGroup& group :
       reshape_groups(op.operand(0)->type.shape, op.result()->type.shape)) {
    if (group.one_to_one() || group.from_begin == group.from_end || group.to_begin == group.to_end)
      continue;
    struct Member {
      int node;
      std::int64_t size, inner;  // inner: product of the group's later dimensions
    };
    std::vector<Member> members;
    Cuts all;
    std::int64_t total = 1;
    const auto collect = [&](const Value* value, std::size_t begin, std::size_t end) {
      std::int64_t inner = 1;
      for (std::size_t d = end; d-- > begin;) {
        const std::int64_t size = value->type.shape[d];
        const int at = node(value, d);
        members.push_back({at, size, inner});
        all.insert(inner);
        for (std::int64_t cut : cuts_[static_cast<std::size_t>(root(at))]) all.insert(cut * inner);
        inner *= size;
      }
      total = inner;
    };
    collect(op.operand(0), group.from_begin, group.from_end);
    collect(op.result(), group.to_begin, group.to_end);
    all.erase(1);
    all.erase(total);
    if (total == 0 || !is_chain(all, total)) continue;
    const auto cuts_of = [&](const Member& member) {
      Cuts own;
      for (std::int64_t cut : all) {
        if (cut > member.inner && cut < member.inner * member.size) own.insert(cut / member.inner);
      }
      return own;
    };
    const bool allowed = std::ranges::all_of(members, [&](const Member& member) {
      const auto at = static_cast<std::size_t>(root(member.node));
      const Cuts wanted = cuts_of(member);
      Cuts joined = cuts_[at];
      joined.insert(wanted.begin(), wanted.end());
      return (atomic_[at] == 0 || wanted.empty()) && is_chain(joined, member.size);
    });
    if (!allowed) continue;
    for (const Member& member : members) changed |= add_cuts(member.node, cuts_of(member));
  }
  return changed;
}

// A slice moves on the outermost factor, so inner factors of piece and whole are the same.
bool DimFactors::propagate_slice(const Op& op) {
  const auto dim = static_cast<std::size_t>(op.attrs.integer("dim"));
  if (op.attrs.integer("step") != 1) return false;
  const int whole = node(op.operand(0), dim);
  const int piece = node(op.result(), dim);
  const std::int64_t size = op.operand(0)->type.shape[dim];
  const std::int64_t part = op.result()->type.shape[dim];
  const std::int64_t start = op.attrs.integer("start");
  const auto whole_root = static_cast<std::size_t>(root(whole));
  const auto piece_root = static_cast<std::size_t>(root(piece));
  Cuts inner = cuts_[piece_root];
  for (std::int64_t cut : cuts_[whole_root]) {
    if (cut < part) inner.insert(cut);
  }
  if (inner.empty() || atomic_[whole_root] != 0 || atomic_[piece_root] != 0) return false;
  Cuts outer = inner;
  if (are_equal_pieces(op)) outer.insert(part);
  const std::int64_t stride = *outer.rbegin();
  const bool fits =
      is_chain(inner, part) && is_chain(outer, size) && start % stride == 0 && part % stride == 0;
  Cuts joined = cuts_[whole_root];
  joined.insert(outer.begin(), outer.end());
  if (!fits || !is_chain(joined, size)) return false;
  const bool changed = add_cuts(whole, outer);
  return add_cuts(piece, inner) || changed;
}

Shape DimFactors::factors(const Value* value, std::size_t dim) const {
  const Cuts& cuts = cuts_[static_cast<std::size_t>(root(node(value, dim)))];
  Shape result;
  std::int64_t outer = value->type.shape[dim];
  for (auto it = cuts.rbegin(); it != cuts.rend(); ++it) {
    result.push_back(outer / *it);
    outer = *it;
  }
  result.push_back(outer);
  return result;
}

Shape DimFactors::refined_shape(const Value* value) const {
  Shape shape;
  for (std::size_t d = 0; d < value->type.rank(); ++d) {
    const Shape own = factors(value, d);
    shape.insert(shape.end(), own.begin(), own.end());
  }
  return shape;
}

std::int64_t DimFactors::refined_dim(const Value* value, std::size_t dim) const {
  std::size_t at = 0;
  for (std::size_t d = 0; d < dim; ++d) at += factors(value, d).size();
  return static_cast<std::int64_t>(at);
}

bool DimFactors::refines_anything() const {
  return std::ranges::any_of(cuts_, [](const Cuts& cuts) { return !cuts.empty(); });
}

}  // namespace tessera
