// Where collectives begin and end between the compute steps. Internal to passes/scheduled.
#pragma once
#include <functional>
#include <vector>

#include "passes/cost/replay_streams.h"
#include "passes/scheduled/schedule.h"

namespace tessera {

// One entry of a schedule: a compute step, or the begin or the end of a collective.
struct Slot {
  enum class What : std::uint8_t { Run, Start, Wait };
  int unit = 0;
  What what = What::Run;
};
using Schedule = std::vector<Slot>;

// Everything in its order, nothing overlaps.
Schedule blocking_schedule(const Units& units);

// Compute steps keep their order. A reduction begins as soon as its operand is there and ends where
// its result is needed, or earlier: when it has had twice its time, so that its operand's buffer
// is free again. A gather of what is there anyway begins as late as it can be done in time, with
// its own time to spare, and as far ahead as `memory` bytes of live values allow. `overlaps` says
// which collectives may be begun early at all.
Schedule overlapping_schedule(const Units& units, double memory,
                              const std::function<bool(const Unit&)>& overlaps);

// Seconds, and what of the collectives' time no compute hides.
struct ScheduleTime {
  double seconds = 0, exposed = 0;
  std::vector<Span> spans;  // by unit
};
ScheduleTime replay(const Units& units, const Schedule& schedule);

// The most bytes that results of units need at once.
double peak_bytes(const Units& units, const Schedule& schedule);

}  // namespace tessera
