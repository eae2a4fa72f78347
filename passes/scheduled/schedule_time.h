// Schedules of units, and what they take: time by a replay, memory by liveness. Internal to
// passes/scheduled.
#pragma once
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

// Seconds, and what of the collectives' time no compute hides.
struct ScheduleTime {
  double seconds = 0, exposed = 0;
};
ScheduleTime blocking_time(const Units& units);  // a sum: nothing overlaps
ScheduleTime replay(const Units& units, const Schedule& schedule);

// Bytes of results of units that are in use beside each compute step (sums of gradients not counted
// as steps), and at the end; the most of it.
std::vector<double> live_bytes(const Units& units, const Schedule& schedule);
double peak_bytes(const Units& units, const Schedule& schedule);

}  // namespace tessera
