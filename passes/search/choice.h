// One point of the search space: a grid, and what trades time for memory on it.
#pragma once
#include <string>

#include "ir/base/grid.h"
#include "passes/pass.h"

namespace tessera {

struct Choice {
  Grid grid;  // axes data, z, y, x
  std::int64_t micro_batches = 1;
  Recompute recompute = Recompute::None;
  bool regather = false, zero1 = false, scatter_tokens = false, scatter_features = false;

  void apply(PassOptions& options) const;
};

// "data=2,z=4,y=2,x=1, 4 micro-batches, recompute block, regather, zero1, scatter tokens, scatter
// features"; what is off is left out.
std::string to_text(const Choice& choice);
Choice settings_of(const PassOptions& options);  // without a grid
std::string options_text(const Choice& choice);  // without the grid; "" if all is off

}  // namespace tessera
