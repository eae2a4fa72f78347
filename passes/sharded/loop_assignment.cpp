#include "passes/sharded/loop_assignment.h"

#include <algorithm>

namespace tessera {

LoopAxes resolve_loops(const IndexMap& map, const LoopAxes& wanted, const LoopAxes& spare) {
  std::string order = map.results.empty() ? "" : map.results[0];
  for (char loop : map.loops()) {
    if (order.find(loop) == std::string::npos) order += loop;
  }
  const auto axes_of = [&](char loop) -> const Axes& {
    static const Axes none;
    const auto found = wanted.find(loop);
    return found == wanted.end() ? none : found->second;
  };
  std::ranges::stable_sort(order,
                           [&](char a, char b) { return axes_of(a).size() > axes_of(b).size(); });
  LoopAxes loops;
  Axes used;
  for (char loop : order) {
    if (map.is_whole(loop)) continue;
    Axes own;
    for (AxisId axis : axes_of(loop)) {
      if (contains(used, axis)) break;
      own.push_back(axis);
    }
    if (own.empty()) continue;
    used = concatenated(std::move(used), own);
    loops[loop] = std::move(own);
  }
  for (char loop : order) {
    const auto found = spare.find(loop);
    if (found == spare.end() || map.is_whole(loop)) continue;
    const Axes own = loops.contains(loop) ? loops.at(loop) : Axes{};
    if (own != axes_of(loop) || intersects(used, found->second)) continue;
    loops[loop] = concatenated(own, found->second);
    used = concatenated(std::move(used), found->second);
  }
  return loops;
}

LoopAxes assign_loops(const Op& op, const IndexMap& map, const DimClasses& classes,
                      const ClassAxes& axes, const ClassAxes& spare) {
  LoopAxes wanted, more;
  for (char loop : map.loops()) {
    const ClassId id = classes.of_loop(op, map, loop);
    if (const auto found = axes.find(id); found != axes.end()) wanted[loop] = found->second;
    if (const auto found = spare.find(id); found != spare.end()) more[loop] = found->second;
  }
  return resolve_loops(map, wanted, more);
}

std::vector<Axes> cuts_of(const std::string& term, const LoopAxes& loops) {
  std::vector<Axes> cuts;
  for (char loop : term) {
    const auto found = loops.find(loop);
    cuts.push_back(found == loops.end() ? Axes{} : found->second);
  }
  return cuts;
}

}  // namespace tessera
