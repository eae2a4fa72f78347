#include <nlohmann/json.hpp>

#include "ir/base/text.h"
#include "passes/search/assignment.h"

namespace tessera {
namespace {

std::string loops_text(const LoopAxes& loops, const Grid& grid) {
  return join(loops, "; ",
              [&](const auto& item) { return str(item.first, ": ", grid.text(item.second)); });
}

}  // namespace

std::string costs_json(const AssignmentProblem& problem, const Assignment& best, const Grid& grid) {
  using Json = nlohmann::ordered_json;
  Json nodes = Json::array(), terms = Json::array();
  for (const AssignmentNode& node : problem.nodes) {
    Json choices = Json::array();
    for (const LoopAxes& choice : node.choices) choices.push_back(loops_text(choice, grid));
    nodes.push_back({{"name", node.name},
                     {"op", node.op},
                     {"times", node.ops.size()},
                     {"choices", choices},
                     {"seconds", node.seconds},
                     {"memory_bytes", node.bytes}});
  }
  for (const AssignmentTerm& term : problem.terms) {
    Json slots = Json::array();
    for (const AssignmentTerm::Slot& slot : term.slots)
      slots.push_back({{"node", slot.node}, {"row_of_choice", slot.rows}});
    terms.push_back({{"slots", slots}, {"seconds", term.seconds}});
  }
  const std::vector<int> layout = layout_of(problem);
  return Json{{"grid", grid.text()},
              {"nodes", nodes},
              {"terms", terms},
              {"layout", {{"choice", layout}, {"seconds", cost_of(problem, layout)}}},
              {"best", {{"choice", best.choice}, {"seconds", best.seconds}, {"exact", best.exact}}}}
             .dump() +
         "\n";
}

}  // namespace tessera
