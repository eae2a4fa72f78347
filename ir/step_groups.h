// Groups elementwise ops into fused steps: one pass over memory for a whole chain.
#pragma once
#include <vector>

#include "ir/graph.h"

namespace tessera {

// One step of a function: a single op, or a chain of elementwise ops (sources and broadcasts that
// feed it included, repeated in every chain that needs them).
struct StepGroup {
  std::vector<const Op*> ops;         // in order; one op unless fused
  std::vector<const Value*> inputs;   // buffers it reads (fused only)
  std::vector<const Value*> outputs;  // results that others read
  bool fused = false;
};

std::vector<StepGroup> group_steps(const Func& func);

}  // namespace tessera
