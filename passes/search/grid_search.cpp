#include "passes/search/grid_search.h"

#include <algorithm>
#include <charconv>
#include <map>

#include "ir/base/diag.h"
#include "ir/base/text.h"

namespace tessera {
namespace {

bool allows(int wanted, int size) { return wanted == 0 || wanted == size; }

// The named strategies; an axis of 1 is not used, 0 is free.
const std::map<std::string, GridPattern>& strategies() {
  static const std::map<std::string, GridPattern> table{
      {"auto", {0, 0, 0, 0}}, {"axonn", {0, 0, 0, 0}},    {"ddp", {0, 1, 1, 1}},
      {"fsdp", {1, 0, 1, 1}}, {"megatron", {0, 1, 0, 1}}, {"atp", {0, 1, 0, 0}}};
  return table;
}

}  // namespace

GridPattern parse_grid_pattern(const std::string& text) {
  GridPattern pattern{1, 1, 1, 1};
  for (const std::string& item : split(text, ',')) {
    const std::size_t equals = item.find('=');
    const std::string axis = item.substr(0, equals);
    int* size = axis == "data" ? &pattern.data
                : axis == "z"  ? &pattern.z
                : axis == "y"  ? &pattern.y
                : axis == "x"  ? &pattern.x
                               : nullptr;
    if (equals == std::string::npos || size == nullptr)
      throw CompileError("--grid", str("expected AXIS=SIZE or AXIS=*, found ", in_quotes(item)),
                         {"axes are data, z, y and x"});
    const std::string value = item.substr(equals + 1);
    int number = 0;
    const auto result = std::from_chars(value.data(), value.data() + value.size(), number);
    const bool whole = result.ec == std::errc() && result.ptr == value.data() + value.size();
    if (value != "*" && (!whole || number < 1 || number > (1 << 20)))
      throw CompileError("--grid", str("axis ", axis, " has size '", value, "'"));
    *size = value == "*" ? 0 : number;
  }
  return pattern;
}

const std::vector<std::string>& strategy_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> list;
    for (const auto& [name, pattern] : strategies()) list.push_back(name);
    return list;
  }();
  return names;
}

GridPattern pattern_of_strategy(const std::string& name) {
  const auto found = strategies().find(name);
  if (found == strategies().end())
    throw CompileError("--strategy", str("there is no strategy ", in_quotes(name)),
                       {str("strategies: ", join(strategy_names(), ", "))});
  return found->second;
}

std::vector<GridCandidate> search_grids(const GridModel& model, const Machine& machine,
                                        const GridPattern& pattern, int devices) {
  std::vector<GridCandidate> candidates;
  for (int data = 1; data <= devices; ++data) {
    if (devices % data != 0 || !allows(pattern.data, data)) continue;
    for (int z = 1; z <= devices / data; ++z) {
      const int left = devices / data / z;
      if (devices / data % z != 0 || !allows(pattern.z, z)) continue;
      for (int y = 1; y <= left; ++y) {
        if (left % y != 0 || !allows(pattern.y, y) || !allows(pattern.x, left / y)) continue;
        const Grid grid({{"data", data}, {"z", z}, {"y", y}, {"x", left / y}});
        const GridEstimate estimate = model.estimate(grid);
        candidates.push_back({grid, estimate, estimate.memory <= machine.device.memory_bytes});
      }
    }
  }
  std::ranges::stable_sort(candidates, [](const GridCandidate& a, const GridCandidate& b) {
    if (a.fits != b.fits) return a.fits;
    return a.fits ? a.estimate.seconds < b.estimate.seconds : a.estimate.memory < b.estimate.memory;
  });
  return candidates;
}

}  // namespace tessera
