// Searches the space of choices with the model: every grid of the devices, every setting, and as
// few micro-batches as make it fit.
#pragma once
#include <optional>
#include <vector>

#include "passes/search/step_model.h"
#include "passes/search/strategies.h"

namespace tessera {

struct Candidate {
  Choice choice;
  double seconds = 0;                     // of a step
  double compute = 0, communication = 0;  // only of those that the result lists
  double memory = 0;                      // bytes of a rank
  bool fits = true;
  bool refined = false;  // its plan leaves the layout
};

struct SearchSpace {
  Strategy strategy;
  GridPattern pattern;  // narrows the strategy's
  int devices = 1;
  double memory_bytes = 0;  // of a device, or what the user allows
  // What the user has fixed.
  std::optional<std::int64_t> micro_batches;
  std::optional<Recompute> recompute;
  std::optional<bool> regather, zero1, tokens, features;
};

struct SearchResult {
  // The best of each grid: those that fit first, by time. Grids that cannot come near the best are
  // left out.
  std::vector<Candidate> candidates;
  std::size_t grids = 0;  // all of them
  // The best of each of strategies() within the space; nothing where no grid forms it.
  std::vector<std::optional<Candidate>> by_strategy;
  std::size_t priced = 0;  // choices whose time was estimated
  double lower_bound = 0;  // seconds: no plan is faster under the model
};

// Empty candidates if no grid of the space has exactly `devices` devices.
SearchResult search(const StepModel& model, const SearchSpace& space);

}  // namespace tessera
