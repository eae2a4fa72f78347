// What a collective takes on a machine. Messages are sized by types alone.
#pragma once
#include "ir/base/grid.h"
#include "ir/base/op_kind.h"
#include "passes/cost/machine.h"

namespace tessera {

enum class CollectiveAlgorithm : std::uint8_t { None, Ring, HalvingDoubling };
std::string_view name(CollectiveAlgorithm algorithm);

struct CollectiveCost {
  double seconds = 0;
  double wire_bytes = 0;                                      // sent by one rank
  CollectiveAlgorithm algorithm = CollectiveAlgorithm::None;  // of the outermost run of axes
  int link = -1;  // the outermost link class that it crosses, as an index into Machine::links
};

// `bytes`: the larger side of what a rank holds (operand of all_reduce, reduce_scatter, all_to_all;
// result of all_gather). Axes of size 1 cost nothing; neighbouring axes are one ring; several runs
// of axes are done one after the other, the inner ones on more data.
//
// One ring of n members: c V (n-1)/n / beta + latencies, c = 2 for all_reduce and 1 else (arXiv
// 2305.13525, its communication model). beta is the machine's measured value for the group, else
// what the slowest link class that the ring crosses leaves to it: a class's bandwidth, divided by
// the rings that share it.
CollectiveCost collective_cost(const Machine& machine, const Grid& grid, OpKind kind,
                               const Axes& over, double bytes);

// Bus bandwidth of one ring of `size` members with `inside` devices between neighbours.
double ring_bandwidth(const Machine& machine, int inside, int size);

// Only bandwidths, no latencies and no launch times: the published model.
Machine bandwidth_only(Machine machine);

}  // namespace tessera
