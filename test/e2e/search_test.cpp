// The search's estimate of a grid against the replay of the plan that is compiled for it.
#include <algorithm>
#include <cmath>

#include "codegen/predict_plan.h"
#include "frontend/import_onnx.h"
#include "frontend/zoo.h"
#include "passes/pass_manager.h"
#include "passes/search/grid_search.h"
#include "test/support/compile.h"

namespace tessera::test {
namespace {

struct Row {
  std::string grid;
  GridEstimate estimate;
  Prediction replay;
};

std::vector<Row> compare(const ZooModel& zoo, const std::string& bind, const Machine& machine,
                         int devices) {
  const Scratch scratch;
  CompileFlags flags;
  flags.model = scratch / "model.onnx";
  flags.bind = {bind};
  flags.train = flags.quiet = true;
  flags.output = scratch / "plan";
  write_zoo_model(zoo, flags.model);
  ImportOptions import;
  import.model = flags.model;
  import.bindings["batch"] = std::stoll(bind.substr(bind.find('=') + 1));
  Module module = import_onnx(import).module;
  PassContext context;
  context.options.train = true;
  PassManager({{}, false}).run(module, logical_passes(true), context);
  const GridModel model(module, machine);
  std::vector<Row> rows;
  for (const GridCandidate& c :
       search_grids(model, machine, pattern_of_strategy("auto"), devices)) {
    flags.grid = c.grid.text();
    compile_model(flags);
    rows.push_back({flags.grid, c.estimate, predict(read_plan(flags.output), machine)});
  }
  return rows;
}

double spearman(std::vector<Row> rows) {
  const auto ranks = [&](auto key) {
    std::vector<std::size_t> order(rows.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::ranges::sort(order, {}, [&](std::size_t i) { return key(rows[i]); });
    std::vector<double> rank(rows.size());
    for (std::size_t i = 0; i < order.size(); ++i) rank[order[i]] = static_cast<double>(i);
    return rank;
  };
  const auto a = ranks([](const Row& r) { return r.estimate.seconds; });
  const auto b = ranks([](const Row& r) { return r.replay.seconds; });
  double squares = 0;
  for (std::size_t i = 0; i < a.size(); ++i) squares += (a[i] - b[i]) * (a[i] - b[i]);
  const double n = static_cast<double>(a.size());
  return 1 - 6 * squares / (n * (n * n - 1));
}

TEST(GridEstimates, FollowTheReplayOfTheCompiledPlan) {
  const ZooModel gpt{"gpt", 3, 1024, 16, 4096, 256, 0, 0, DType::F32};
  const ZooModel llama{"llama", 3, 1024, 16, 4096, 256, 4, 0, DType::F32};
  for (const ZooModel& zoo : {gpt, llama}) {
    const Machine machine = load_machine("perlmutter");
    const std::vector<Row> rows = compare(zoo, "batch=16", machine, 8);
    for (const Row& row : rows) {
      const double time = row.estimate.seconds / row.replay.seconds;
      const double memory = row.estimate.memory / row.replay.memory_total;
      std::printf(
          "%-6s %-26s estimate %.4g s replay %.4g s ratio %.3f  comm %.4g %.4g  memory %.3f\n",
          zoo.family.c_str(), row.grid.c_str(), row.estimate.seconds, row.replay.seconds, time,
          row.estimate.communication, row.replay.communication, memory);
      EXPECT_GT(time, 0.85) << row.grid;
      EXPECT_LT(time, 1.15) << row.grid;
      EXPECT_GT(memory, 0.8) << row.grid;
      EXPECT_LT(memory, 1.15) << row.grid;
    }
    std::printf("Spearman %.3f\n", spearman(rows));
    EXPECT_GT(spearman(rows), 0.95);
  }
}

}  // namespace
}  // namespace tessera::test
