// The solver of assignment problems against trying everything: on random costs, and on random small
// graphs with the real cost model.
#include "passes/search/assignment.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <random>

#include "frontend/import_onnx.h"
#include "frontend/zoo.h"
#include "ir/base/text.h"
#include "ir/builder.h"
#include "passes/pass_manager.h"

namespace tessera::test {
namespace {

double exhaustive(const AssignmentProblem& problem) {
  std::vector<int> choice(problem.nodes.size(), 0);
  double least = cost_of(problem, choice);
  for (;;) {
    std::size_t v = 0;
    while (v < choice.size() && ++choice[v] == static_cast<int>(problem.nodes[v].choices.size()))
      choice[v++] = 0;
    if (v == choice.size()) return least;
    least = std::min(least, cost_of(problem, choice));
  }
}

AssignmentTerm::Slot slot(const AssignmentProblem& problem, std::size_t node) {
  AssignmentTerm::Slot made{static_cast<int>(node), {}, 0};
  for (std::size_t c = 0; c < problem.nodes[node].choices.size(); ++c)
    made.rows.push_back(made.row_count++);
  return made;
}

TEST(Assignment, IsExactOnRandomProblems) {
  std::mt19937 random(7);
  for (int round = 0; round < 2000; ++round) {
    AssignmentProblem problem;
    const std::size_t count = 1 + random() % 6;
    for (std::size_t v = 0; v < count; ++v) {
      AssignmentNode node;
      node.choices.resize(1 + random() % 4);
      for (std::size_t c = 0; c < node.choices.size(); ++c)
        node.seconds.push_back(static_cast<double>(random() % 100));
      problem.nodes.push_back(node);
    }
    for (std::size_t a = 0; a < count; ++a) {
      for (std::size_t b = a + 1; b < count; ++b) {
        if (random() % 2 == 0) continue;
        AssignmentTerm term{{slot(problem, a), slot(problem, b)}, {}};
        const std::size_t size = problem.nodes[a].choices.size() * problem.nodes[b].choices.size();
        for (std::size_t i = 0; i < size; ++i)
          term.seconds.push_back(static_cast<double>(random() % 100));
        problem.terms.push_back(term);
      }
    }
    const double least = exhaustive(problem);
    const Assignment best = solve(problem);
    ASSERT_TRUE(best.exact);
    ASSERT_NEAR(best.seconds, least, 1e-9);
    ASSERT_NEAR(cost_of(problem, best.choice), best.seconds, 1e-9);
    // With tables too small to be exact it is never worse than where it begins.
    const Assignment held = solve(problem, 4);
    const std::vector<int> start(count, 0);
    ASSERT_LE(held.seconds, cost_of(problem, start));
    ASSERT_GE(held.seconds, least - 1e-9);
  }
}

// Up to five ops over matrices of a few sizes: products, sums, reductions, elementwise.
Module random_module(std::mt19937& random) {
  Module module;
  module.grid =
      random() % 2 == 0 ? Grid::parse("y=2,x=4", "test") : Grid::parse("data=4,x=2", "test");
  Func& func = *module.add_func("forward");
  const std::int64_t n = std::int64_t{64} << random() % 5;
  std::vector<Value*> values{func.add_arg("a", Type(DType::F32, {n, n}), ArgKind::Input)};
  for (const char* name : {"w", "u"}) {
    values.push_back(func.add_arg(name, Type(DType::F32, {n, n}), ArgKind::Param));
    module.weights[name] = WeightSource{};
  }
  Builder builder(module, func);
  const std::size_t ops = 2 + random() % 4;
  for (std::size_t i = 0; i < ops; ++i) {
    Value* a = values[random() % values.size()];
    Value* b = values[random() % values.size()];
    switch (random() % 4) {
      case 0:
        values.push_back(builder.emit(OpKind::Tanh, {a}));
        break;
      case 1:
        values.push_back(builder.add(a, b));
        break;
      default:
        values.push_back(builder.einsum({a, b}, "mk,kn->mn"));
        break;
    }
  }
  func.results.push_back({values.back(), "out", false});
  func.erase_unused_ops();
  return module;
}

TEST(Assignment, IsWithinOnePercentOfAllAssignmentsOfRandomGraphs) {
  std::mt19937 random(11);
  const Machine machine = load_machine("perlmutter");
  int graphs = 0, better = 0;
  for (int round = 0; round < 4000; ++round) {
    Module module = random_module(random);
    if (module.find("forward")->ops().empty()) continue;
    PassContext context;
    const std::vector<const Pass*> passes{find_pass("choose_shardings"),
                                          find_pass("propagate_shardings")};
    PassManager({{}, false}).run(module, passes, context);
    const AssignmentProblem problem = assignment_problem(module, machine, {});
    double combinations = 1;
    for (const AssignmentNode& node : problem.nodes)
      combinations *= static_cast<double>(node.choices.size());
    const Assignment best = solve(problem);
    ASSERT_TRUE(best.exact);
    const std::vector<int> layout = layout_of(problem);
    ASSERT_LE(best.seconds, cost_of(problem, layout) * (1 + 1e-9));
    better += best.seconds < 0.99 * cost_of(problem, layout) ? 1 : 0;
    if (combinations > 3e5) continue;
    ASSERT_LE(best.seconds, 1.01 * exhaustive(problem));
    ++graphs;
  }
  std::printf(
      "%d graphs tried in full; the best assignment beats the layout's by 1%% in %d of 4000\n",
      graphs, better);
  EXPECT_GT(graphs, 3000);
}

Module block_module(const std::string& family, int layers, bool train, const std::string& grid) {
  const std::filesystem::path path =
      std::filesystem::temp_directory_path() / str("tessera-block-", ::getpid(), ".onnx");
  write_zoo_model({family, layers, 1024, 16, 4096, 256, family == "llama" ? 4 : 0, 0, DType::BF16},
                  path);
  ImportOptions import;
  import.model = path;
  import.bindings = {{"batch", 16}, { "sequence", 256 }};
  Module module = import_onnx(import).module;
  std::filesystem::remove(path);
  module.grid = Grid::parse(grid, "test");
  PassContext context;
  context.options.train = train;
  PassManager({{}, false}).run(module, logical_passes(train), context);
  const std::vector<const Pass*> passes{find_pass("choose_shardings"),
                                        find_pass("propagate_shardings")};
  PassManager({{}, false}).run(module, passes, context);
  return module;
}

AssignmentProblem block_problem(const std::string& family, int layers, bool train,
                                const std::string& grid) {
  return assignment_problem(block_module(family, layers, train, grid), load_machine("perlmutter"),
                            {});
}

// With the small tables of --refine, transformer blocks cost within 1% of the proven optimum.
TEST(Assignment, IsWithinOnePercentOnTransformerBlocks) {
  constexpr std::size_t kSmall = std::size_t{1} << 18, kLarge = std::size_t{1} << 24;
  for (const auto& [family, train, grid] : {std::tuple{"gpt", false, "data=2,z=2,y=2,x=2"},
                                            {"llama", false, "data=2,z=2,y=2,x=2"},
                                            {"gpt", false, "data=1,z=1,y=2,x=2"},
                                            {"llama", true, "data=1,z=1,y=1,x=4"},
                                            {"gpt", true, "data=1,z=1,y=1,x=4"}}) {
    const AssignmentProblem problem = block_problem(family, 1, train, grid);
    const Assignment exact = solve(problem, kLarge);
    ASSERT_TRUE(exact.exact) << family << grid;
    for (const std::size_t table : {kSmall / 16, kSmall}) {
      const Assignment held = solve(problem, table);
      const double gap = held.seconds / exact.seconds - 1;
      std::printf("%-5s %s %s: %zu ops, tables of %zu: %.2f%% above the optimum\n", family,
                  train ? "training" : "inference", grid, problem.nodes.size(), table, 100 * gap);
      EXPECT_LE(gap, 0.01);
    }
  }
}

// Layers in the middle are one: twice as many of them change counts and costs, not the problem.
TEST(Assignment, RepeatedLayersAreSolvedOnce) {
  for (const char* family : {"gpt", "llama"}) {
    const AssignmentProblem eight = block_problem(family, 8, true, "data=2,z=2,y=2,x=2");
    const AssignmentProblem sixteen = block_problem(family, 16, true, "data=2,z=2,y=2,x=2");
    EXPECT_EQ(eight.nodes.size(), sixteen.nodes.size());
    EXPECT_EQ(eight.terms.size(), sixteen.terms.size());
    std::size_t most = 0;
    for (const AssignmentNode& node : sixteen.nodes) most = std::max(most, node.ops.size());
    EXPECT_GE(most, 12u) << "of 16 layers, all but those at the ends repeat each other";
  }
}

// One pinned op of many that look alike: it keeps its loops, the others stay free.
TEST(Assignment, PinnedOpsHaveNoOtherChoice) {
  const Module module = block_module("gpt", 8, true, "data=1,z=2,y=2,x=2");
  const Machine machine = load_machine("perlmutter");
  int tried = 0;
  for (const AssignmentNode& node : assignment_problem(module, machine, {}).nodes) {
    if (node.ops.size() < 4 || node.choices.size() == 1) continue;
    const Op* pinned = node.ops[2];
    PassOptions options;
    options.pins = {str(pinned->result()->name, "={}")};
    for (const AssignmentNode& other : assignment_problem(module, machine, options).nodes) {
      if (std::ranges::find(other.ops, pinned) == other.ops.end()) continue;
      EXPECT_EQ(other.choices.size(), 1u) << other.name;
      EXPECT_EQ(other.ops.size(), 1u) << other.name;
    }
    if (++tried == 5) break;
  }
  EXPECT_EQ(tried, 5);
}

// Few choices of each op are kept: what is lost by that, against four times as many.
TEST(Assignment, FewChoicesOfEachOpAreEnough) {
  const Machine machine = load_machine("perlmutter");
  for (const char* family : {"gpt", "llama"}) {
    const Module module = block_module(family, 1, false, "data=2,z=2,y=2,x=2");
    const Assignment few = solve(assignment_problem(module, machine, {}));
    const Assignment many = solve(assignment_problem(module, machine, {}, 96));
    std::printf("%-5s %.4f%% above the best of four times as many choices\n", family,
                100 * (few.seconds / many.seconds - 1));
    EXPECT_LE(few.seconds, 1.01 * many.seconds);
  }
}

}  // namespace
}  // namespace tessera::test
