// Named strategies of other systems, as parts of the search space: which grids, and which settings.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "passes/search/choice.h"

namespace tessera {

// Sizes by axis; 0 is free.
struct GridPattern {
  int data = 0, z = 0, y = 0, x = 0;
};

// "data=2,z=*,y=1,x=*"; axes that are not named are 1. Throws CompileError.
GridPattern parse_grid_pattern(const std::string& text);

enum class Setting : std::uint8_t { Off, On, Free };

struct Strategy {
  std::string name = {}, summary = {};
  GridPattern pattern = {};
  // Whether these sizes form its grid, beyond the pattern.
  bool (*forms)(int data, int z, int y, int x) = [](int, int, int, int) { return true; };
  Setting regather = Setting::Free, zero1 = Setting::Off, tokens = Setting::Off,
          features = Setting::Off;
};

const std::vector<Strategy>& strategies();
// Throws CompileError naming those that there are.
const Strategy& strategy_named(const std::string& name);

}  // namespace tessera
