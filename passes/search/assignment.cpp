#include "passes/search/assignment.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "ir/base/text.h"
#include "ir/op_def.h"
#include "passes/cost/collective_cost.h"
#include "passes/cost/op_cost.h"
#include "passes/sharded/layout.h"
#include "passes/sharded/loop_assignment.h"
#include "passes/sharded/reshard_path.h"

namespace tessera {
namespace {

constexpr std::size_t kMostChoices = 64;

bool is_source(const Op* op) {
  return op->kind == OpKind::Fill || op->kind == OpKind::Iota || op->kind == OpKind::Constant;
}

class ProblemBuilder {
 public:
  ProblemBuilder(const Module& module, const Machine& machine)
      : grid_(module.grid), machine_(machine), func_(*body_of(module)) {
    for (AxisId axis = 0; axis < grid_.axis_count(); ++axis) {
      if (grid_.size(axis) > 1) axes_.push_back(axis);
    }
  }

  AssignmentProblem run() {
    for (const auto& op : func_.ops()) {
      if (!is_source(op.get())) add_node(*op);
    }
    for (const auto& op : func_.ops()) {
      if (node_of_.contains(op.get())) add_edges(*op);
    }
    for (const FuncResult& result : func_.results) add_result(result);
    return std::move(problem_);
  }

 private:
  // Every way to give each axis to one of the loops, or to none.
  std::vector<LoopAxes> choices_of(const Op& op, const IndexMap& map) const {
    std::string loops;
    for (const char loop : map.loops()) {
      const bool cut = op.loops && op.loops->contains(loop);
      if (!map.is_whole(loop) && (!map.is_expandable(loop) || cut)) loops += loop;
    }
    std::vector<LoopAxes> choices{{}};
    for (const AxisId axis : axes_) {
      const std::size_t count = choices.size();
      for (const char loop : loops) {
        for (std::size_t i = 0; i < count; ++i) {
          LoopAxes more = choices[i];
          more[loop].push_back(axis);
          choices.push_back(std::move(more));
        }
      }
    }
    return choices;
  }

  Type need(const Op& op, const IndexMap& map, std::size_t operand, const LoopAxes& loops) const {
    Type type = op.operand(operand)->type.logical();
    type.cuts = cuts_of(map.operands[operand], loops);
    return type;
  }

  Type made(const Op& op, const IndexMap& map, std::size_t result, const LoopAxes& loops) const {
    Type type = op.result(result)->type.logical();
    type.cuts = cuts_of(map.results[result], loops);
    for (const auto& [loop, axes] : loops) {
      if (map.results[result].find(loop) == std::string::npos)
        type.partial.axes = concatenated(type.partial.axes, axes);
    }
    std::ranges::sort(type.partial.axes);
    type.partial.op = op_def(op.kind).reduce;
    if (type.partial.axes.empty() || family(op.kind) == OpFamily::Normalization) type.partial = {};
    return type;
  }

  double seconds(const Op& op, const IndexMap& map, const LoopAxes& loops) const {
    std::vector<Type> types;
    for (std::size_t i = 0; i < op.operands.size(); ++i) types.push_back(need(op, map, i, loops));
    for (std::size_t i = 0; i < op.results.size(); ++i) types.push_back(made(op, map, i, loops));
    std::vector<const Type*> in, out;
    for (std::size_t i = 0; i < types.size(); ++i)
      (i < op.operands.size() ? in : out).push_back(&types[i]);
    double total = 0;
    if (family(op.kind) ==
        OpFamily::Elementwise) {  // part of a chain, which pays for what it leaves
      for (const Type* type : out)
        total += static_cast<double>(largest_local_bytes(*type, grid_)) /
                 machine_.device.memory_bandwidth;
    } else {
      total = op_seconds(machine_, grid_, {op.kind, &op.attrs, in, out});
    }
    for (std::size_t i = 0; i < op.operands.size(); ++i) {  // arguments lie as they are stored
      if (op.operand(i)->def == nullptr) total += reshard(op.operand(i)->type, types[i]);
    }
    return total;
  }

  double reshard(const Type& from, const Type& to) const {
    double total = 0;
    each_collective(from, to, grid_, [&](OpKind kind, const Axes& over, double bytes) {
      total += collective_cost(machine_, grid_, kind, over, bytes).seconds;
    });
    return total;
  }

  void add_node(Op& op) {
    const IndexMap map = index_map(op);
    AssignmentNode node;
    node.name = op.result()->name;
    node.op = mnemonic(op.kind);
    node.source = &op;
    std::vector<std::pair<double, LoopAxes>> ranked;
    for (LoopAxes& choice : choices_of(op, map)) {
      const double cost = seconds(op, map, choice);
      ranked.emplace_back(cost, std::move(choice));
    }
    LoopAxes present = op.loops.value_or(LoopAxes{});
    std::erase_if(present, [](const auto& item) { return item.second.empty(); });
    std::ranges::stable_sort(ranked, {}, [&](const auto& item) {
      return std::pair(item.second != present, item.first);  // the present one comes first
    });
    if (ranked.front().second != present)
      ranked.insert(ranked.begin(), {seconds(op, map, present), present});
    if (ranked.size() > kMostChoices) ranked.resize(kMostChoices);
    for (auto& [cost, choice] : ranked) {
      double bytes = 0;
      for (std::size_t i = 0; i < op.results.size(); ++i)
        bytes += static_cast<double>(largest_local_bytes(made(op, map, i, choice), grid_));
      node.seconds.push_back(cost);
      node.bytes.push_back(bytes);
      node.choices.push_back(std::move(choice));
    }
    node_of_[&op] = static_cast<int>(problem_.nodes.size());
    problem_.nodes.push_back(std::move(node));
  }

  // Costs between all types that one op makes and the other needs; choices share types.
  void add_edges(const Op& op) {
    const IndexMap map = index_map(op);
    const int to = node_of_.at(&op);
    for (std::size_t i = 0; i < op.operands.size(); ++i) {
      const Value& value = *op.operand(i);
      const auto source = value.def == nullptr ? node_of_.end() : node_of_.find(value.def);
      if (source == node_of_.end()) continue;
      const int from = source->second;
      const IndexMap maker = index_map(*value.def);
      AssignmentEdge edge{from, to, {}};
      std::unordered_map<std::string, double> known;
      for (const LoopAxes& a : problem_.nodes[static_cast<std::size_t>(from)].choices) {
        const Type out = made(*value.def, maker, static_cast<std::size_t>(value.index), a);
        const std::string key = to_text(out, grid_);
        for (const LoopAxes& b : problem_.nodes[static_cast<std::size_t>(to)].choices) {
          const Type in = need(op, map, i, b);
          const auto [found, fresh] = known.try_emplace(key + " > " + to_text(in, grid_), 0.0);
          if (fresh) found->second = reshard(out, in);
          edge.seconds.push_back(found->second);
        }
      }
      problem_.edges.push_back(std::move(edge));
    }
  }

  // Results leave without partial sums; what updates an argument, as that is stored.
  void add_result(const FuncResult& result) {
    if (result.value->def == nullptr) return;
    const auto found = node_of_.find(result.value->def);
    if (found == node_of_.end()) return;
    const Op& op = *result.value->def;
    const IndexMap map = index_map(op);
    AssignmentNode& node = problem_.nodes[static_cast<std::size_t>(found->second)];
    for (std::size_t c = 0; c < node.choices.size(); ++c) {
      const Type out =
          made(op, map, static_cast<std::size_t>(result.value->index), node.choices[c]);
      Type stored = out;
      stored.partial = {};
      if (result.updates) stored = func_.find_arg(result.name)->type;
      node.seconds[c] += reshard(out, stored);
    }
  }

  const Grid& grid_;
  const Machine& machine_;
  const Func& func_;
  Axes axes_;
  std::unordered_map<const Op*, int> node_of_;
  AssignmentProblem problem_;
};

std::string loops_text(const LoopAxes& loops, const Grid& grid) {
  return join(loops, "; ",
              [&](const auto& item) { return str(item.first, ": ", grid.text(item.second)); });
}

}  // namespace

AssignmentProblem assignment_problem(const Module& module, const Machine& machine) {
  TESSERA_CHECK(module.level == Level::Assigned && body_of(module) != nullptr,
                "an assignment problem is made of ops with loops");
  return ProblemBuilder(module, machine).run();
}

std::string costs_json(const AssignmentProblem& problem, const Assignment& best, const Grid& grid) {
  using Json = nlohmann::ordered_json;
  Json nodes = Json::array(), edges = Json::array();
  std::vector<int> present;
  for (const AssignmentNode& node : problem.nodes) {
    Json choices = Json::array();
    for (const LoopAxes& choice : node.choices) choices.push_back(loops_text(choice, grid));
    nodes.push_back({{"name", node.name},
                     {"op", node.op},
                     {"choices", choices},
                     {"seconds", node.seconds},
                     {"memory_bytes", node.bytes}});
    present.push_back(node.present);
  }
  for (const AssignmentEdge& edge : problem.edges) {
    Json rows = Json::array();
    const std::size_t width = problem.nodes[static_cast<std::size_t>(edge.to)].choices.size();
    for (std::size_t at = 0; at < edge.seconds.size(); at += width)
      rows.push_back(
          std::vector<double>(edge.seconds.begin() + static_cast<std::ptrdiff_t>(at),
                              edge.seconds.begin() + static_cast<std::ptrdiff_t>(at + width)));
    edges.push_back({{"from", edge.from}, {"to", edge.to}, {"seconds", rows}});
  }
  return Json{{"grid", grid.text()},
              {"nodes", nodes},
              {"edges", edges},
              {"layout", {{"choice", present}, {"seconds", cost_of(problem, present)}}},
              {"best", {{"choice", best.choice}, {"seconds", best.seconds}, {"exact", best.exact}}}}
             .dump() +
         "\n";
}

}  // namespace tessera
