// One point of the search space: a grid, and what trades time for memory on it.
#pragma once
#include <string>

#include "ir/base/grid.h"
#include "passes/pass.h"

namespace tessera {

struct Choice : Settings {
  Grid grid;  // axes data, z, y, x
};

// "4 micro-batches, recompute block, regather, zero1, scatter tokens, scatter features, 2
// sub-batches, refined";
// what is off is left out, "" if all is.
std::string settings_text(const Settings& settings, bool refined);
std::string to_text(const Choice& choice);  // "data=2,z=4,y=2,x=1, 4 micro-batches, ..."

}  // namespace tessera
