#include "tools/tessera/choose_grid.h"

#include <algorithm>
#include <cstdio>

#include "ir/base/diag.h"
#include "ir/base/text.h"

namespace tessera {
namespace {

constexpr std::size_t kShown = 5;

bool matches(const GridPattern& pattern, const Grid& grid) {
  const auto fits = [&](int wanted, const char* axis) {
    return wanted == 0 || grid.size(grid.find(axis)) == wanted;
  };
  return fits(pattern.data, "data") && fits(pattern.z, "z") && fits(pattern.y, "y") &&
         fits(pattern.x, "x");
}

void row(const std::string& name, const GridCandidate& c) {
  std::printf("  %-10s %-28s %10.4g s %9.4g s %9.4g s %9.3g GB%s\n", name.c_str(),
              c.grid.text().c_str(), c.estimate.seconds, c.estimate.compute,
              c.estimate.communication, c.estimate.memory / 1e9, c.fits ? "" : "  does not fit");
}

}  // namespace

bool searches_grid(const CompileFlags& flags) {
  return flags.grid.empty() || flags.grid.find('*') != std::string::npos;
}

std::vector<GridCandidate> grid_candidates(const Module& logical, const CompileFlags& flags,
                                           const Machine& machine) {
  if (flags.devices < 1)
    throw CompileError("--devices", "say for how many devices the grid is to be chosen",
                       {"or name the grid: --grid data=2,z=1,y=2,x=2"});
  const GridPattern pattern =
      flags.grid.empty() ? pattern_of_strategy(flags.strategy) : parse_grid_pattern(flags.grid);
  const GridModel model(logical, machine);
  std::vector<GridCandidate> candidates = search_grids(model, machine, pattern, flags.devices);
  if (candidates.empty())
    throw CompileError(
        "--grid", str("no grid of ", in_quotes(flags.grid), " has ", flags.devices, " devices"));
  return candidates;
}

void print_candidates(const std::vector<GridCandidate>& candidates, const CompileFlags& flags,
                      const Machine& machine) {
  const auto fitting = std::ranges::count_if(candidates, &GridCandidate::fits);
  std::printf("%zu grids of %d devices of %s, %td fit in %.3g GB\n", candidates.size(),
              flags.devices, machine.name.c_str(), fitting, machine.device.memory_bytes / 1e9);
  std::printf("  %-10s %-28s %12s %11s %11s %12s\n", "", "grid", "step", "compute", "comm.",
              "memory");
  for (std::size_t i = 0; i < std::min(kShown, candidates.size()); ++i)
    row(i == 0 ? "best" : str(i + 1), candidates[i]);
  for (const std::string& name : strategy_names()) {
    const GridPattern pattern = pattern_of_strategy(name);
    const auto found = std::ranges::find_if(
        candidates, [&](const GridCandidate& c) { return matches(pattern, c.grid); });
    if (name != "auto" && found != candidates.end()) row(name, *found);
  }
}

void refuse_to_fit(const std::vector<GridCandidate>& candidates, const Machine& machine) {
  const GridCandidate& least = *std::ranges::min_element(
      candidates, {}, [](const GridCandidate& c) { return c.estimate.memory; });
  throw CompileError(str("machine ", machine.name),
                     str("no grid fits: the smallest need is ", least.estimate.memory / 1e9,
                         " GB a device on ", least.grid.text(), ", a ", machine.device.name,
                         " has ", machine.device.memory_bytes / 1e9, " GB"),
                     {"more devices, a smaller batch, or more --micro-batches"});
}

}  // namespace tessera
