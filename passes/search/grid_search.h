// Which grids a number of devices allows, and which of them the model prefers.
#pragma once
#include <string>
#include <vector>

#include "passes/search/grid_model.h"

namespace tessera {

struct GridCandidate {
  Grid grid;
  GridEstimate estimate;
  bool fits = true;  // in the machine's memory
};

// Sizes by axis; 0 is free.
struct GridPattern {
  int data = 0, z = 0, y = 0, x = 0;
};

// "data=2,z=*,y=1,x=*"; axes that are not named are 1. Throws CompileError.
GridPattern parse_grid_pattern(const std::string& text);

// Strategies that are grids of this layout: ddp, fsdp, megatron (y and data), atp (x, y and data),
// axonn (all four), auto. Throws CompileError naming those that there are.
GridPattern pattern_of_strategy(const std::string& name);
const std::vector<std::string>& strategy_names();

// Every grid of the pattern with exactly `devices` devices, by expected time, those that fit first.
// Empty if the sizes do not multiply to `devices`.
std::vector<GridCandidate> search_grids(const GridModel& model, const Machine& machine,
                                        const GridPattern& pattern, int devices);

}  // namespace tessera
