// What a plan is expected to take on a machine: a replay of its steps on the streams of one
// representative rank (coordinate 0, which holds the largest pieces), priced by passes/cost.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "passes/cost/machine.h"
#include "runtime/plan.h"

namespace tessera {

struct TimelineEvent {
  std::string func, name, category, stream;  // category: compute, collective, optimizer
  double start = 0, seconds = 0;
  double memory = 0;       // bytes of a rank that are in use meanwhile: state and live values
  int step = 0;            // of the function
  std::string collective;  // "all_reduce over x", else empty
};

struct CollectiveTotal {
  double count = 0, seconds = 0, bytes = 0;  // bytes sent by one rank
  double exposed = 0;                        // seconds that no compute runs beside
  double hidden() const {                    // less than this is round-off
    return seconds - exposed > 1e-9 * seconds ? seconds - exposed : 0;
  }
};

// Times are of one training step (or one inference): @prepare, @micro as often as there are
// micro-batches, @update.
struct Prediction {
  double seconds = 0;
  double compute = 0, optimizer = 0;
  double communication = 0, exposed = 0;  // all of it; the part with no compute beside it
  std::map<std::string, CollectiveTotal> collectives;  // "all_reduce over x"
  double model_flops = 0;       // of the uncut program, contractions and attention
  double rank_flops = 0;        // on one rank; times ranks minus model_flops is repeated work
  double recomputed_flops = 0;  // of model_flops' kind, but done a second time; not in model_flops
  double peak_flops = 0;        // of all ranks, in the dtype of the largest contraction
  std::map<std::string, double> memory;  // bytes on one rank, by component
  double memory_total = 0;
  std::vector<TimelineEvent> timeline;  // of one micro-batch

  double hidden() const { return CollectiveTotal{0, communication, 0, exposed}.hidden(); }
  // With every collective blocking: what the step takes without overlap.
  double blocking_seconds() const { return compute + optimizer + communication; }
  double share_of_peak() const { return seconds > 0 ? model_flops / seconds / peak_flops : 0; }
};

Prediction predict(const Plan& plan, const Machine& machine);

}  // namespace tessera
