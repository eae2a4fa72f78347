// The search, and the compilation of what it ranks first. Internal to `tessera compile`.
#pragma once
#include <nlohmann/json.hpp>

#include "passes/cost/machine.h"
#include "tools/tessera/build_plan.h"

namespace tessera {

struct ChosenPlan {
  Compiled compiled;
  nlohmann::json search;  // what explain shows of the other candidates; null without a search
};

// Prints the candidates unless flags.quiet. Throws CompileError if nothing fits.
ChosenPlan choose_plan(const CompileFlags& flags, const Machine& machine, Timings& timings);

}  // namespace tessera
