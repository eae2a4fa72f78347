// The nodes and terms of an assignment problem, by the cost model.
#include <algorithm>
#include <map>
#include <set>
#include <unordered_set>

#include "ir/op_def.h"
#include "passes/cost/op_cost.h"
#include "passes/search/assignment.h"
#include "passes/search/op_types.h"
#include "passes/search/repeated_ops.h"
#include "passes/search/type_table.h"
#include "passes/sharded/layout.h"
#include "passes/sharded/pins.h"
#include "passes/sharded/step_parts.h"

namespace tessera {
namespace {

class ProblemBuilder {
 public:
  ProblemBuilder(const Module& module, const Machine& machine, const PassOptions& options,
                 std::size_t most_choices)
      : grid_(module.grid),
        machine_(machine),
        func_(*body_of(module)),
        types_(machine_, grid_),
        most_choices_(most_choices),
        loss_(last_forward_op(module, func_)),
        regather_(options.regather),
        pinned_(pinned_ops(options.pins, func_)) {
    for (AxisId axis = 0; axis < grid_.axis_count(); ++axis) {
      if (grid_.size(axis) > 1) axes_.push_back(axis);
    }
  }

  AssignmentProblem run() {
    add_nodes();
    find_uses();
    for (const FuncResult& result : func_.results) add_result(result);
    for (const auto& [move, times] : moves_) add_move(move, times);
    for (const auto& [saving, times] : savings_) add_saving(saving, times);
    return std::move(problem_);
  }

 private:
  // Types of a node's operands and results, by choice.
  struct NodeTypes {
    std::vector<std::vector<int>> needs, made;
  };
  // What the ops around an op make of its operands (-1: an argument or a source) and need of its
  // results, at their present loops.
  struct Neighbours {
    std::vector<int> made;
    std::vector<std::vector<int>> needed;
  };
  // Where a value comes from: a node's result, or an argument (node -1) of a type.
  struct Origin {
    int node = -1, index = 0;
    auto operator<=>(const Origin&) const = default;
  };
  struct Use {
    int node = -1, operand = 0;
    auto operator<=>(const Use&) const = default;
  };
  struct Move {
    Origin from;
    Use to;
    auto operator<=>(const Move&) const = default;
  };
  // The version of a value that `before` needed is what `after` may start from.
  struct Saving {
    Origin from;
    Use before, after;
    bool forgets = false;  // gathered versions are gone by then
    auto operator<=>(const Saving&) const = default;
  };

  static Type need(const Op& op, const IndexMap& map, std::size_t i, const LoopAxes& loops) {
    Type type = need_type(op.operand(i)->type, map.operands[i], loops);
    type.partial = accumulated_partial(op);
    return type;
  }
  static Type made(const Op& op, const IndexMap& map, std::size_t i, const LoopAxes& loops) {
    Type type = made_type(op.kind, op.result(i)->type, map.results[i], loops);
    if (const Partial kept = accumulated_partial(op); !kept.axes.empty()) type.partial = kept;
    return type;
  }

  // Every way to give each axis to one of the loops, or to none.
  std::vector<LoopAxes> choices_of(const Op& op, const IndexMap& map) const {
    std::string loops;
    for (const char loop : map.loops()) {
      if (!map.is_whole(loop)) loops += loop;
    }
    std::vector<LoopAxes> choices{{}};
    for (const AxisId axis : without(axes_, accumulated_partial(op).axes)) {
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

  // One execution, with what its arguments cost that lie as they are stored.
  double own_seconds(const Op& op, const IndexMap& map, const LoopAxes& loops) {
    std::vector<Type> types;
    for (std::size_t i = 0; i < op.operands.size(); ++i) types.push_back(need(op, map, i, loops));
    for (std::size_t i = 0; i < op.results.size(); ++i) types.push_back(made(op, map, i, loops));
    std::vector<const Type*> in, out;
    for (std::size_t i = 0; i < types.size(); ++i)
      (i < op.operands.size() ? in : out).push_back(&types[i]);
    double total = step_op_seconds(machine_, grid_, {op.kind, &op.attrs, in, out});
    if (family(op.kind) == OpFamily::Normalization) {
      for (const Type* type : out) {
        const RowStatistics rows = row_statistics(*type, map, loops);
        if (rows.over.empty()) continue;
        const auto bytes = static_cast<double>(largest_local_bytes(rows.rows, grid_));
        total += collective_cost(machine_, grid_, OpKind::AllReduce, rows.over, bytes).seconds;
      }
    }
    for (std::size_t i = 0; i < op.operands.size(); ++i) {
      if (op.operand(i)->def != nullptr) continue;
      total += types_.reshard_seconds(types_.id(op.operand(i)->type), types_.id(types[i]));
    }
    return total;
  }

  Neighbours neighbours(const Op& op) {
    Neighbours around;
    for (const Value* value : op.operands) {
      if (value->def == nullptr || is_source(value->def)) {
        around.made.push_back(-1);
        continue;
      }
      const Op& def = *value->def;
      around.made.push_back(types_.id(
          made(def, index_map(def), static_cast<std::size_t>(value->index), present_loops(def))));
    }
    for (std::size_t i = 0; i < op.results.size(); ++i) {
      auto& needs = around.needed.emplace_back();
      for (const Op* user : op.result(i)->users) {
        const auto at = static_cast<std::size_t>(std::ranges::find(user->operands, op.result(i)) -
                                                 user->operands.begin());
        needs.push_back(types_.id(need(*user, index_map(*user), at, present_loops(*user))));
      }
    }
    return around;
  }

  // What it takes to come from, and to get to, the ops around it at their present loops.
  double neighbour_seconds(const Op& op, const IndexMap& map, const LoopAxes& loops,
                           const Neighbours& around) {
    double total = 0;
    for (std::size_t i = 0; i < op.operands.size(); ++i) {
      if (around.made[i] < 0) continue;
      total += types_.reshard_seconds(around.made[i], types_.id(need(op, map, i, loops)));
    }
    for (std::size_t i = 0; i < op.results.size(); ++i) {
      const int from = types_.id(made(op, map, i, loops));
      for (const int to : around.needed[i]) total += types_.reshard_seconds(from, to);
    }
    return total;
  }

  static LoopAxes present_loops(const Op& op) {
    LoopAxes present = op.loops.value_or(LoopAxes{});
    std::erase_if(present, [](const auto& item) { return item.second.empty(); });
    return present;
  }

  // Whether the forward pass makes it and the backward pass reads it.
  bool is_kept(const Value& value) const {
    const auto backward = [&](const Op* op) { return backward_.contains(op); };
    return !backward(value.def) && std::ranges::any_of(value.users, backward);
  }

  void add_nodes() {
    bool after = false;
    for (const auto& op : func_.ops()) {
      if (after) backward_.insert(op.get());
      after = after || op.get() == loss_;
    }
    const auto repeated = repeated_ops(func_, grid_);
    std::map<std::pair<int, bool>, int> node_of_kind;
    for (const auto& op : func_.ops()) {
      if (is_source(op.get())) continue;
      // Pinned ops are told apart from others that look like them.
      const std::pair kind(repeated.at(op.get()), pinned_.contains(op.get()));
      const auto [found, fresh] =
          node_of_kind.try_emplace(kind, static_cast<int>(problem_.nodes.size()));
      if (fresh) add_node(*op);
      node_of_[op.get()] = found->second;
      problem_.nodes[static_cast<std::size_t>(found->second)].ops.push_back(op.get());
    }
    for (AssignmentNode& node : problem_.nodes) {
      for (double& seconds : node.seconds) seconds *= static_cast<double>(node.ops.size());
      for (double& bytes : node.bytes) bytes *= static_cast<double>(node.ops.size());
    }
  }

  // The present loops, then the cheapest others next to what the neighbours do now (the layout, or
  // what has been found better).
  std::vector<LoopAxes> best_choices(const Op& op, const IndexMap& map) {
    using Ranked = std::pair<double, LoopAxes>;
    const LoopAxes present = present_loops(op);
    std::vector<Ranked> by_own, best;
    if (!pinned_.contains(&op)) {
      for (LoopAxes& choice : choices_of(op, map)) {
        if (choice != present) by_own.emplace_back(own_seconds(op, map, choice), std::move(choice));
      }
    }
    std::ranges::stable_sort(by_own, {}, &Ranked::first);
    const Neighbours around = neighbours(op);
    for (Ranked& choice : by_own) {
      const bool full = best.size() + 1 >= most_choices_;
      if (full && (best.empty() || choice.first >= best.back().first)) break;
      choice.first += neighbour_seconds(op, map, choice.second, around);
      best.insert(std::ranges::upper_bound(best, choice.first, {}, &Ranked::first),
                  std::move(choice));
      if (full) best.pop_back();
    }
    std::vector<LoopAxes> choices{present};
    for (Ranked& choice : best) choices.push_back(std::move(choice.second));
    return choices;
  }

  void add_node(const Op& op) {
    const IndexMap map = index_map(op);
    AssignmentNode node{op.result()->name, std::string(mnemonic(op.kind)), {}, {}, {}, 0, {}};
    const std::vector<LoopAxes> choices = best_choices(op, map);
    NodeTypes types;
    types.needs.resize(op.operands.size());
    types.made.resize(op.results.size());
    for (const LoopAxes& choice : choices) {
      for (std::size_t i = 0; i < op.operands.size(); ++i)
        types.needs[i].push_back(types_.id(need(op, map, i, choice)));
      double bytes = 0;
      for (std::size_t i = 0; i < op.results.size(); ++i) {
        types.made[i].push_back(types_.id(made(op, map, i, choice)));
        if (is_kept(*op.result(i))) bytes += types_.bytes(types.made[i].back());
      }
      node.seconds.push_back(own_seconds(op, map, choice));
      node.bytes.push_back(bytes);
      node.choices.push_back(choice);
    }
    node_types_.push_back(std::move(types));
    problem_.nodes.push_back(std::move(node));
  }

  Origin origin_of(const Value& value) {
    if (value.def == nullptr) return {-1, types_.id(value.type)};
    return {node_of_.at(value.def), value.index};
  }

  // Counts every kind of move, and what follows on what.
  void find_uses() {
    struct Last {
      Use use;
      bool backward = false;
    };
    std::unordered_map<const Value*, Last> last;
    for (const auto& op : func_.ops()) {
      for (std::size_t i = 0; i < op->operands.size() && node_of_.contains(op.get()); ++i) {
        const Value& value = *op->operand(i);
        if (is_source(value.def)) continue;
        const Use use{node_of_.at(op.get()), static_cast<int>(i)};
        const Origin from = origin_of(value);
        if (value.def != nullptr) ++moves_[{from, use}];
        const bool backward = backward_.contains(op.get());
        const auto [before, first] = last.try_emplace(&value, Last{use, backward});
        if (first) continue;
        const bool forgets = regather_ && backward && !before->second.backward;
        ++savings_[{from, before->second.use, use, forgets}];
        before->second = {use, backward};
      }
    }
  }

  // The types behind a slot of a term: one for each row.
  using Types = std::vector<int>;

  AssignmentTerm::Slot slot(int node, const std::vector<int>& by_choice, Types& rows) const {
    AssignmentTerm::Slot made{node, {}, 0};
    for (const int type : by_choice) {
      const auto found = std::ranges::find(rows, type);
      made.rows.push_back(static_cast<int>(found - rows.begin()));
      if (found == rows.end()) rows.push_back(type);
    }
    made.row_count = static_cast<int>(rows.size());
    return made;
  }
  AssignmentTerm::Slot made_slot(const Origin& from, Types& rows) const {
    const NodeTypes& types = node_types_[static_cast<std::size_t>(from.node)];
    return slot(from.node, types.made[static_cast<std::size_t>(from.index)], rows);
  }
  AssignmentTerm::Slot need_slot(const Use& use, Types& rows) const {
    const NodeTypes& types = node_types_[static_cast<std::size_t>(use.node)];
    return slot(use.node, types.needs[static_cast<std::size_t>(use.operand)], rows);
  }

  void add_move(const Move& move, int times) {
    Types made, needed;
    AssignmentTerm term{{made_slot(move.from, made), need_slot(move.to, needed)}, {}};
    for (const int from : made) {
      for (const int to : needed) term.seconds.push_back(times * types_.reshard_seconds(from, to));
    }
    problem_.terms.push_back(std::move(term));
  }

  // Costs were counted from the value itself; from the version before they may be less.
  void add_saving(const Saving& saving, int times) {
    Types before, after, made;
    AssignmentTerm term{{need_slot(saving.before, before), need_slot(saving.after, after)}, {}};
    if (saving.from.node < 0) {
      made.push_back(saving.from.index);
    } else {
      term.slots.push_back(made_slot(saving.from, made));
    }
    for (const int has : before) {
      for (const int needs : after) {
        for (const int start : made) {
          const bool gone = saving.forgets && types_.bytes(has) > types_.bytes(start);
          const double saved =
              types_.reshard_seconds(start, needs) - types_.reshard_seconds(has, needs);
          term.seconds.push_back(gone || saved < 0 ? 0.0 : -times * saved);
        }
      }
    }
    problem_.terms.push_back(std::move(term));
  }

  // Results leave without partial sums; what updates an argument, as that is stored.
  void add_result(const FuncResult& result) {
    if (result.value->def == nullptr || !node_of_.contains(result.value->def)) return;
    const Origin from = origin_of(*result.value);
    const auto node = static_cast<std::size_t>(from.node);
    const std::vector<int>& made = node_types_[node].made[static_cast<std::size_t>(from.index)];
    for (std::size_t c = 0; c < made.size(); ++c) {
      Type whole = types_.type(made[c]);
      whole.partial = {};
      if (result.updates) whole = func_.find_arg(result.name)->type;
      problem_.nodes[node].seconds[c] += types_.reshard_seconds(made[c], types_.id(whole));
    }
  }

  const Grid& grid_;
  const Machine& machine_;
  const Func& func_;
  TypeTable types_;
  std::size_t most_choices_;
  const Op* loss_;
  bool regather_;
  std::unordered_set<const Op*> backward_;  // ops of the backward pass
  std::set<const Op*> pinned_;
  Axes axes_;
  std::unordered_map<const Op*, int> node_of_;
  std::vector<NodeTypes> node_types_;  // by node
  std::map<Move, int> moves_;          // how often
  std::map<Saving, int> savings_;
  AssignmentProblem problem_;
};

}  // namespace

AssignmentProblem assignment_problem(const Module& module, const Machine& machine,
                                     const PassOptions& options, std::size_t most_choices) {
  TESSERA_CHECK(module.level == Level::Assigned && body_of(module) != nullptr,
                "an assignment problem is made of ops with loops");
  return ProblemBuilder(module, machine, options, most_choices).run();
}

}  // namespace tessera
