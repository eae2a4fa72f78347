#include "passes/cost/collective_cost.h"

#include <algorithm>
#include <cmath>

#include "ir/base/check.h"
#include "ir/base/sharding.h"

namespace tessera {
namespace {

// Axes of a group that are neighbours in the grid (axes of size 1 between them do not count).
struct Run {
  int inside = 1;  // devices between neighbours
  int size = 1;
};

// Innermost first.
std::vector<Run> runs_of(const Grid& grid, const Axes& over) {
  std::vector<Run> runs;
  int inside = 1;
  bool open = false;
  for (AxisId axis = grid.axis_count(); axis-- > 0;) {
    const int size = grid.size(axis);
    if (size == 1) continue;
    if (contains(over, axis)) {
      if (!open) runs.push_back({inside, 1});
      runs.back().size *= size;
    }
    open = contains(over, axis);
    inside *= size;
  }
  return runs;
}

// How many members of a ring lie behind one link of a class that joins groups of `within` devices.
int members_within(int within, const Run& run) {
  return std::clamp(within / run.inside, 1, run.size);
}

// Hops that a ring makes inside each link class, as latency.
double ring_latency(const Machine& machine, const Run& run) {
  double seconds = 0;
  int counted = run.size;  // groups that are left to join
  for (const Link& link : machine.links) {
    const int groups = link.devices == 0 ? 1
                                         : (run.size + members_within(link.devices, run) - 1) /
                                               members_within(link.devices, run);
    seconds += (counted - groups) * link.latency;
    counted = groups;
  }
  return seconds;
}

// log2 steps inside each class.
double tree_latency(const Machine& machine, const Run& run) {
  double seconds = 0;
  double counted = run.size;
  for (const Link& link : machine.links) {
    const double groups =
        link.devices == 0
            ? 1
            : std::ceil(run.size / static_cast<double>(members_within(link.devices, run)));
    seconds += std::ceil(std::log2(counted / groups)) * link.latency;
    counted = groups;
  }
  return seconds;
}

const Measured* table_for(const Machine& machine, int inside) {
  const Measured* found = nullptr;
  for (const Measured& table : machine.measured) {
    if (table.inside <= inside) found = &table;
  }
  return found;
}

// One inner group holds `within` devices: a ring crosses the class if it has members outside of it.
bool crosses(const Link& link, int within, const Run& run) {
  return run.size > members_within(within, run) && (link.devices == 0 || link.devices > run.inside);
}

int outermost_link(const Machine& machine, const Run& run) {
  int within = 1, found = -1;
  for (std::size_t i = 0; i < machine.links.size(); ++i) {
    if (crosses(machine.links[i], within, run)) found = static_cast<int>(i);
    within = machine.links[i].devices;
  }
  return found;
}

CollectiveCost run_cost(const Machine& machine, const Run& run, double factor, double bytes) {
  const double n = run.size;
  CollectiveCost cost;
  cost.wire_bytes = factor * bytes * (n - 1) / n;
  const double transfer = cost.wire_bytes / ring_bandwidth(machine, run.inside, run.size);
  const double ring = factor * ring_latency(machine, run);
  const double tree = factor * tree_latency(machine, run);
  cost.algorithm = tree < ring ? CollectiveAlgorithm::HalvingDoubling : CollectiveAlgorithm::Ring;
  cost.link = outermost_link(machine, run);
  cost.seconds = transfer + std::min(ring, tree) + machine.device.launch_seconds;
  return cost;
}

}  // namespace

std::string_view name(CollectiveAlgorithm algorithm) {
  switch (algorithm) {
    case CollectiveAlgorithm::None:
      return "none";
    case CollectiveAlgorithm::Ring:
      return "ring";
    case CollectiveAlgorithm::HalvingDoubling:
      return "halving-doubling";
  }
  return "";
}

double ring_bandwidth(const Machine& machine, int inside, int size) {
  if (const Measured* table = table_for(machine, inside)) {
    auto found = table->bandwidth.upper_bound(size);
    if (found != table->bandwidth.begin()) return std::prev(found)->second;
  }
  const Run run{inside, size};
  double slowest = HUGE_VAL;
  int within = 1;  // devices behind one link of this class
  for (const Link& link : machine.links) {
    // Rings with `members` in an inner group of `within` devices share its link.
    if (crosses(link, within, run)) {
      const int members = members_within(within, run);
      const double rings = std::max(1.0, static_cast<double>(within) / members);
      slowest = std::min(slowest, link.bandwidth / rings);
    }
    within = link.devices;
  }
  TESSERA_CHECK(slowest < HUGE_VAL, "a ring of ", size, " members crosses no link");
  return slowest;
}

CollectiveCost collective_cost(const Machine& machine, const Grid& grid, OpKind kind,
                               const Axes& over, double bytes) {
  CollectiveCost total;
  const double factor = kind == OpKind::AllReduce ? 2 : 1;
  const std::vector<Run> runs = runs_of(grid, over);
  // A gather ends with the inner run, on the whole of its result; a reduction starts there. Either
  // way the inner run moves all of it, the next one what an inner piece holds.
  for (const Run& run : runs) {
    const CollectiveCost part = run_cost(machine, run, factor, bytes);
    total.seconds += part.seconds;
    total.wire_bytes += part.wire_bytes;
    total.algorithm = part.algorithm;
    total.link = std::max(total.link, part.link);
    if (kind != OpKind::AllToAll) bytes /= run.size;
  }
  return total;
}

Machine bandwidth_only(Machine machine) {
  for (Link& link : machine.links) link.latency = 0;
  machine.device.launch_seconds = 0;
  return machine;
}

}  // namespace tessera
