// Assigns loops to the ops that have none, along index maps:
//
//   %s = add %a, %b : f32[8, 16, 64]      =>   %s = add %a, %b loops(a: data,z; c: x) : f32[8, 16,
//   64]
//
// A dimension class takes the axes that most assigned ops give it, so one sweep reaches the fixed
// point. In @update, and where state is accumulated, operands are cut as they are stored and the op
// follows them.
#include <algorithm>
#include <utility>

#include "ir/op_def.h"
#include "passes/pass.h"
#include "passes/sharded/layout.h"
#include "passes/sharded/loop_assignment.h"

namespace tessera {
namespace {

ClassAxes voted_axes(const Module& module, const DimClasses& classes) {
  std::map<ClassId, std::map<Axes, int>> votes;
  for (const auto& func : module.funcs()) {
    for (const Arg& arg : func->args()) {
      if (arg.kind != ArgKind::Input) continue;
      for (std::size_t d = 0; d < arg.value->type.rank(); ++d) {
        if (!arg.value->type.cuts[d].empty())
          ++votes[classes.of(arg.value.get(), d)][arg.value->type.cuts[d]];
      }
    }
    for (const auto& op : func->ops()) {
      if (!op->loops || func->name() == "update") continue;  // storage says nothing of use
      const IndexMap map = index_map(*op);
      for (const auto& [loop, axes] : *op->loops) {
        if (!axes.empty()) ++votes[classes.of_loop(*op, map, loop)][axes];
      }
    }
  }
  ClassAxes axes;
  for (const auto& [id, counts] : votes) {
    axes[id] =
        std::ranges::max_element(counts, {}, [](const auto& item) { return item.second; })->first;
  }
  return axes;
}

// Tokens, and features over x, are cut only where an op leaves the axes unused.
ClassAxes take_spare(const Module& module, const PassOptions& options, ClassAxes& axes) {
  ClassAxes spare;
  if (!options.scatter_tokens && !options.scatter_features) return spare;
  const Layout layout(module);
  for (auto& [id, own] : axes) {
    const auto color = layout.colors.find(id);
    if (layout.batch.tokens.contains(id) && color == layout.colors.end()) {
      spare[id] = std::exchange(own, {});
    } else if (color != layout.colors.end() && color->second == Color::Y) {
      const auto over_x = std::ranges::find_if(
          own, [&](AxisId axis) { return module.grid.name(axis).starts_with("x"); });
      spare[id] = Axes(over_x, own.end());
      own.erase(over_x, own.end());
    }
  }
  return spare;
}

// Loops as the operands that are known to be cut have them.
class Follower {
 public:
  explicit Follower(const Func& func) {
    for (const Arg& arg : func.args()) cuts_[arg.value.get()] = arg.value->type.cuts;
  }

  // `finest_first`: the operand that is cut most decides (optimizer state); else the first one.
  LoopAxes follow(const Op& op, const IndexMap& map, bool finest_first) const {
    LoopAxes loops;
    Axes used;
    std::vector<std::pair<std::size_t, std::size_t>> order;  // (axes, operand)
    for (std::size_t i = 0; i < map.operands.size(); ++i) {
      const auto known = cuts_.find(op.operands[i]);
      if (known == cuts_.end()) continue;
      std::size_t count = 0;
      for (const Axes& axes : known->second) count += axes.size();
      order.emplace_back(finest_first ? count : 0, i);
    }
    std::ranges::stable_sort(order, std::greater<>(), &std::pair<std::size_t, std::size_t>::first);
    for (const auto& [count, i] : order) {
      const auto known = cuts_.find(op.operands[i]);
      for (std::size_t d = 0; d < map.operands[i].size(); ++d) {
        const char loop = map.operands[i][d];
        const Axes& axes = known->second[d];
        if (axes.empty() || map.is_whole(loop) || loops.contains(loop) || intersects(used, axes))
          continue;
        loops[loop] = axes;
        used = concatenated(std::move(used), axes);
      }
    }
    return loops;
  }

  void record(const Op& op, const IndexMap& map) {
    for (std::size_t i = 0; i < op.results.size(); ++i) {
      if (op.loops) cuts_[op.result(i)] = cuts_of(map.results[i], *op.loops);
    }
  }

 private:
  std::map<const Value*, std::vector<Axes>> cuts_;
};

}  // namespace

bool propagate_shardings(Module& module, PassContext& context) {
  const DimClasses classes(module);
  ClassAxes axes = voted_axes(module, classes);
  const ClassAxes spare = take_spare(module, context.options, axes);
  bool changed = false;
  for (const auto& func : module.funcs()) {
    Follower follower(*func);
    for (const auto& op : func->ops()) {
      const IndexMap map = index_map(*op);
      if (!op->loops) {
        const bool update = func->name() == "update";
        const bool follows = update || accumulates_state(*func, *op);
        op->loops = follows ? follower.follow(*op, map, update)
                            : assign_loops(*op, map, classes, axes, spare);
        changed = true;
      }
      follower.record(*op, map);
    }
  }
  return changed;
}

}  // namespace tessera
