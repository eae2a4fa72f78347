// Replaces the layout's loop assignment by the cheapest one that the solver knows
// (passes/search/assignment.h), under additive costs of ops and of changes of sharding:
//
//   %h = einsum %a, %w "mk,kn->mn" loops(k: x; n: y)   =>   ... loops(m: x; n: y)
//
// Arguments lie as they did. Any assignment is right, since types derive every collective; whether
// it is faster is for the replay to say.
#include "ir/base/text.h"
#include "passes/pass.h"
#include "passes/search/assignment.h"
#include "passes/sharded/layout.h"

namespace tessera {

namespace {
// Tenths of a second for the hundred kinds of ops of a transformer.
constexpr std::size_t kLargestTable = 1 << 12;
constexpr unsigned kPatience = 8;
constexpr double kWorthIt = 0.995;  // of the layout's time
}  // namespace

bool refine_loops(Module& module, PassContext& context) {
  if (context.options.refine == Refine::Off || module.grid.ranks() == 1) return false;
  Func& body = *body_of(module);
  const Machine machine = load_machine(context.options.machine);
  const AssignmentProblem problem = assignment_problem(module, machine, context.options);
  const Assignment best =
      solve_within(problem, context.options.refine_bytes, kLargestTable, kPatience);
  const std::vector<int> layout = layout_of(problem);
  const double before = cost_of(problem, layout);
  if (context.options.refine == Refine::WhereWorthIt && best.seconds > kWorthIt * before) {
    context.remark(str("refine: no assignment of loops takes much less than the layout's ", before,
                       " s (", best.seconds, " s)"));
    return false;
  }
  std::size_t changed = 0;
  for (std::size_t i = 0; i < problem.nodes.size(); ++i) {
    const AssignmentNode& node = problem.nodes[i];
    if (best.choice[i] == node.present) continue;
    for (Op* op : node.ops) op->loops = node.choices[static_cast<std::size_t>(best.choice[i])];
    changed += node.ops.size();
  }
  context.remark(str("refine: ", changed, " of ", body.ops().size(), " ops (", problem.nodes.size(),
                     " kinds) take other loops than the layout's, ", before, " s become ",
                     best.seconds, " s", best.exact ? "" : " (not proven least)"));
  context.refined = changed > 0;
  return context.refined;
}

}  // namespace tessera
