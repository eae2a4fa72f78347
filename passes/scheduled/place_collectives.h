// Where collectives begin and end between the compute steps. Internal to passes/scheduled.
#pragma once
#include <functional>

#include "passes/scheduled/schedule_time.h"

namespace tessera {

// Compute steps keep their order. A reduction begins as soon as its operand is there and ends where
// its result is needed, or earlier: when it has had twice its time, so that its operand's buffer
// is free again. A gather of what is there anyway begins as late as it can be done in time, with
// its own time to spare, and as far ahead as `memory` bytes of live values allow. `overlaps` says
// which collectives may be begun early at all.
Schedule overlapping_schedule(const Units& units, double memory,
                              const std::function<bool(const Unit&)>& overlaps);

}  // namespace tessera
