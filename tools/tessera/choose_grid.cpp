#include "tools/tessera/choose_grid.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "ir/base/diag.h"
#include "ir/base/text.h"
#include "tools/tessera/units.h"

namespace tessera {
namespace {

constexpr std::size_t kShown = 5;

void row(const std::string& name, const Candidate& c) {
  std::printf("  %-12s %-28s %13s %9s  %s\n", name.c_str(), c.choice.grid.text().c_str(),
              c.fits ? seconds_text(c.seconds).c_str() : "does not fit",
              bytes_text(c.memory).c_str(), settings_text(c.choice, c.refined).c_str());
}

nlohmann::json to_json(const std::string& name, const Candidate& c) {
  return {{"name", name},
          {"grid", c.choice.grid.text()},
          {"options", settings_text(c.choice, c.refined)},
          {"fits", c.fits},
          {"seconds", c.seconds},
          {"compute_seconds", c.compute},
          {"communication_seconds", c.communication},
          {"memory_bytes", c.memory}};
}

}  // namespace

bool searches_grid(const CompileFlags& flags) {
  return flags.grid.empty() || flags.grid.find('*') != std::string::npos;
}

SearchSpace search_space(const CompileFlags& flags, const Machine& machine) {
  if (flags.devices < 1)
    throw CompileError("--devices", "say for how many devices the grid is to be chosen",
                       {"or name the grid: --grid data=2,z=1,y=2,x=2"});
  SearchSpace space;
  space.strategy = strategy_named(flags.strategy);
  if (!flags.grid.empty()) space.pattern = parse_grid_pattern(flags.grid);
  space.devices = flags.devices;
  space.memory_bytes = flags.max_memory > 0 ? flags.max_memory : machine.device.memory_bytes;
  if (!flags.any_micro_batches) space.micro_batches = flags.options.micro_batches;
  space.recompute = flags.fixed.recompute;
  space.regather = flags.fixed.regather;
  space.zero1 = flags.fixed.zero1;
  space.tokens = flags.fixed.scatter_tokens;
  space.features = flags.fixed.scatter_features;
  return space;
}

SearchResult search_plans(const StepModel& model, const SearchSpace& space,
                          const CompileFlags& flags) {
  SearchResult result = search(model, space);
  if (!result.candidates.empty()) return result;
  if (!flags.grid.empty())
    throw CompileError(
        "--grid", str("no grid of ", in_quotes(flags.grid), " has ", flags.devices, " devices"));
  throw CompileError("--strategy",
                     str(flags.strategy, " forms no grid of ", flags.devices, " devices"),
                     {strategy_named(flags.strategy).summary});
}

void print_candidates(const SearchResult& result, const CompileFlags& flags,
                      const Machine& machine) {
  const auto fitting = std::ranges::count_if(result.candidates, &Candidate::fits);
  std::printf("%zu grids of %d devices of %s, %td fit and come near the best; %zu choices priced\n",
              result.grids, flags.devices, machine.name.c_str(), fitting, result.priced);
  for (std::size_t i = 0; i < std::min(kShown, result.candidates.size()); ++i)
    row(i == 0 ? "best" : str(i + 1), result.candidates[i]);
  for (std::size_t i = 1; i < strategies().size(); ++i) {
    if (result.by_strategy[i]) row(strategies()[i].name, *result.by_strategy[i]);
  }
  const double best = result.candidates.front().seconds;
  std::printf("  no plan takes less than %s: the best is within a factor of %.2f\n",
              seconds_text(result.lower_bound).c_str(), best / result.lower_bound);
}

nlohmann::json candidates_json(const SearchResult& result, const CompileFlags& flags,
                               const Machine& machine) {
  nlohmann::json grids = nlohmann::json::array(), named = nlohmann::json::array();
  for (const Candidate& candidate : result.candidates) grids.push_back(to_json("", candidate));
  for (std::size_t i = 0; i < strategies().size(); ++i) {
    if (result.by_strategy[i])
      named.push_back(to_json(strategies()[i].name, *result.by_strategy[i]));
  }
  return {{"machine", machine.name},
          {"machine_sha256", machine.fingerprint},
          {"devices", flags.devices},
          {"strategy", flags.strategy},
          {"lower_bound_seconds", result.lower_bound},
          {"choices_priced", result.priced},
          {"grids", grids},
          {"strategies", named}};
}

void refuse_to_fit(const StepModel& model, const SearchResult& result, double memory_bytes,
                   const Machine& machine) {
  const Candidate& least = *std::ranges::min_element(result.candidates, {}, &Candidate::memory);
  std::vector<std::pair<std::string, double>> parts;
  for (const auto& part : model.estimate(least.choice).components) parts.push_back(part);
  std::ranges::stable_sort(parts, std::greater(), &std::pair<std::string, double>::second);
  const bool state = parts.front().first != "activations and workspace";
  throw CompileError(
      str("machine ", machine.name),
      str("no plan fits: the smallest need is ", bytes_text(least.memory), " a device (",
          to_text(least.choice), "), a ", machine.device.name, " offers ",
          bytes_text(memory_bytes)),
      {str("of that: ",
           join(parts, ", ",
                [&](const auto& part) { return str(part.first, " ", bytes_text(part.second)); })),
       state ? "more devices, or fewer fixed settings (recompute, regather, zero1 and --grid are "
               "free "
               "unless given)"
             : "more devices, a smaller batch, or more --micro-batches"});
}

}  // namespace tessera
