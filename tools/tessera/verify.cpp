#include "tools/tessera/verify.h"

#include <cstdio>
#include <set>

#include "ir/base/diag.h"
#include "ir/base/text.h"
#include "runtime/check_plan.h"

namespace tessera {

void verify_plan(const std::filesystem::path& folder) {
  constexpr std::size_t kMostExpanded = std::size_t{1} << 22;  // collectives of all ranks
  const Plan plan = read_plan(folder);
  std::vector<std::string> found = check_plan(plan);
  const std::size_t collectives = found.empty() ? issued_by(plan, 0).size() : 0;
  const auto ranks = static_cast<std::size_t>(plan.grid.ranks());
  const bool expands = found.empty() && ranks * collectives <= kMostExpanded;
  if (expands) {
    std::vector<std::vector<IssuedCollective>> issued;
    for (std::size_t rank = 0; rank < ranks; ++rank)
      issued.push_back(issued_by(plan, static_cast<int>(rank)));
    found = check_order(issued);
  }
  if (!found.empty()) {
    const std::string first = found[0];
    found.erase(found.begin());
    throw CompileError(folder.string(), str("the plan is not sound: ", first), found);
  }
  std::size_t steps = 0;
  std::set<std::string> streams;
  for (const PlanFunc& func : plan.funcs) {
    steps += func.steps.size();
    for (const PlanStep& step : func.steps) streams.insert(step.stream);
  }
  std::printf(
      "%s: sound: %zu steps on %zu streams, %zu collectives, %zu communicators, %zu ranks%s\n",
      folder.c_str(), steps, streams.size(), collectives, plan.comms.size(), ranks,
      expands ? "" : " (which issue one list; their orders were not expanded)");
}

}  // namespace tessera
