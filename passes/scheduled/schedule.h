// A function as the scheduler sees it: units that become one step each, what they wait for, and
// what they take. Internal to passes/scheduled.
#pragma once
#include <string>
#include <vector>

#include "ir/graph.h"
#include "passes/cost/machine.h"
#include "passes/pass.h"

namespace tessera {

struct Unit {
  std::vector<const Op*> ops;      // of one step (ir/step_groups.h), sources that it reads included
  const Op* collective = nullptr;  // communicates; null: a compute step
  OverlapKind kind = OverlapKind::Other;  // of a collective
  bool sink = false;       // reduces or adds up a gradient: nothing of this function waits for it
  double seconds = 0;      // of nothing else at once
  int link = -1;           // the link class that a collective keeps busy
  std::vector<int> needs;  // earlier units that it reads from
  std::vector<int> users;  // later units that read from it
  double bytes = 0;        // of a rank's buffers for its results
  int storage = -1;        // the unit whose buffer it uses (reshapes); itself if own
  std::uint64_t sub_batches = 0;  // bit i: it depends on sub-batch i of an input
};

using Units = std::vector<Unit>;  // in the function's order
inline std::size_t at(int unit) { return static_cast<std::size_t>(unit); }

Units units_of(const Func& func, const Grid& grid, const Machine& machine);

// The same units in another order: `order` lists them by their places in `units`.
Units permuted(const Units& units, const std::vector<int>& order);

// The same units with sub-batches taking turns: what one does between two collectives that it waits
// for, then the same of the next one, so that each waits while others compute. The units as they
// are where nothing was cut in sub-batches.
Units interleaved(const Units& units);

// The same units in an order that gives collectives something to run beside. What leads to one
// comes before compute that it does not need, and compute that does not need its result before
// what does, as far as neither moves by more than the collective's own time:
//
//   dI einsum, reduce_scatter of it, norm grad of that, norm again, all_gather of it, dW einsum
//   => norm again, all_gather of it, dI einsum, reduce_scatter of it, dW einsum, norm grad
Units reordered(const Units& units);

}  // namespace tessera
