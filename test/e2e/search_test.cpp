// The search's estimate of a grid against the replay of the plan that is compiled for it.
#include "passes/search/search.h"

#include <algorithm>
#include <cmath>

#include "codegen/predict_plan.h"
#include "frontend/import_onnx.h"
#include "frontend/zoo.h"
#include "ir/base/file.h"
#include "passes/pass_manager.h"
#include "test/support/compile.h"

namespace tessera::test {
namespace {

// Of m.onnx in the folder, for a search.
CompileFlags training(const Scratch& scratch, const std::string& bind, const std::string& machine,
                      int devices) {
  CompileFlags flags;
  flags.model = scratch / "m.onnx";
  flags.bind = {bind};
  flags.train = flags.quiet = true;
  flags.machine = machine;
  flags.devices = devices;
  flags.output = scratch / "plan";
  return flags;
}

struct Row {
  std::string grid;
  Estimate estimate;
  Prediction replay;
};

std::vector<Row> compare(const ZooModel& zoo, std::int64_t batch, const Choice& choice,
                         const Machine& machine, int devices) {
  const std::int64_t micro_batches = choice.micro_batches;
  const Scratch scratch;
  CompileFlags flags;
  flags.model = scratch / "model.onnx";
  flags.bind = {str("batch=", batch, ",sequence=", zoo.sequence)};
  flags.options.micro_batches = micro_batches;
  flags.train = flags.quiet = true;
  flags.output = scratch / "plan";
  write_zoo_model(zoo, flags.model);
  ImportOptions import;
  import.model = flags.model;
  import.bindings["batch"] = batch;
  import.bindings["sequence"] = zoo.sequence;
  Module module = import_onnx(import).module;
  PassContext context;
  context.options.train = true;
  PassManager({{}, false}).run(module, logical_passes(true), context);
  const StepModel model(module, machine);
  SearchSpace space;
  space.strategy = strategy_named("axonn");
  space.devices = devices;
  space.memory_bytes = 1e18;
  space.micro_batches = micro_batches;
  space.recompute = choice.recompute;
  space.regather = choice.regather;
  space.zero1 = choice.zero1;
  space.tokens = choice.scatter_tokens;
  space.features = choice.scatter_features;
  std::vector<Row> rows;
  for (const Candidate& c : search(model, space).candidates) {
    flags.grid = c.choice.grid.text();
    static_cast<Settings&>(flags.options) = c.choice;
    compile_model(flags);
    rows.push_back(
        {flags.grid, model.estimate(c.choice), predict(read_plan(flags.output), machine)});
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
  const Machine machine = load_machine("perlmutter");
  Choice plain, micro, block, spread;
  micro.micro_batches = 4;
  micro.zero1 = true;
  block.recompute = Recompute::Block;
  block.regather = true;
  spread.scatter_tokens = spread.scatter_features = true;
  spread.recompute = Recompute::Selective;
  for (const auto& [zoo, choice] :
       {std::pair{gpt, plain}, {llama, plain}, {gpt, micro}, {gpt, block}, {llama, spread}}) {
    std::printf("%s\n", to_text(choice).c_str());
    const std::vector<Row> rows = compare(zoo, 16L * choice.micro_batches, choice, machine, 8);
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
      // Estimates may be high: gradients that are added up are sometimes made in smaller pieces.
      EXPECT_LT(memory, choice.micro_batches > 1 ? 1.3 : 1.15) << row.grid;
    }
    std::printf("Spearman %.3f\n", spearman(rows));
    EXPECT_GT(spearman(rows), 0.95);
  }
}

// A model without weights is planned for a grid that the search chose; with random weights it runs,
// and every grid starts at about the entropy of guessing.
TEST(Search, PlansForChosenGridsRun) {
  const Scratch scratch;
  write_zoo_model({"llama", 2, 32, 4, 61, 12, 2, 0, DType::F32}, scratch / "m.onnx");
  for (const int devices : {1, 4, 6}) {
    const CompileFlags flags = training(scratch, "batch=6,sequence=12", "localhost", devices);
    compile_model(flags);
    EXPECT_EQ(read_plan(flags.output).grid.ranks(), devices);
    Tensor ids(DType::I64, {6, 12});
    for (std::size_t i = 0; i < 72; ++i)
      ids.mutable_view<std::int64_t>()[i] = static_cast<std::int64_t>(i * 7 % 61);
    write_npy(scratch / "ids.npy", ids);
    SessionOptions session;
    session.plan_folder = flags.output;
    session.quiet = true;
    session.log = scratch / "log";
    session.batches.inputs = {{"input_ids", scratch / "ids.npy"}, {"labels", scratch / "ids.npy"}};
    EXPECT_EQ(run(session), 2);  // the weights are absent
    session.random_weights = 1;
    ASSERT_EQ(run(session), 0);
    EXPECT_NEAR(read_log(session.log).at(0).loss, std::log(61.0), 0.7) << devices;
  }
}

// Embedding and head lie best in ways that no layout has: the search finds them by itself, and says
// so. Named strategies stay what they are.
TEST(Search, RefinesTheBestLayout) {
  const Scratch scratch;
  write_zoo_model({"llama", 4, 4096, 32, 51200, 2048, 0, 0, DType::BF16}, scratch / "m.onnx");
  const Machine machine = load_machine("perlmutter");
  const auto refined = [](const fs::path& folder) {
    const Plan plan = read_plan(folder);
    const auto settings = plan.notes.find("settings");
    return settings != plan.notes.end() && settings->second.ends_with("refined");
  };
  double seconds[2] = {};
  for (const bool refine : {false, true}) {
    CompileFlags flags = training(scratch, "batch=64,sequence=2048", "perlmutter", 32);
    if (!refine) flags.fixed.refine = false;
    compile_model(flags);
    seconds[refine ? 1 : 0] = predict(read_plan(flags.output), machine).seconds;
    EXPECT_EQ(refined(flags.output), refine);
    if (!refine) continue;
    flags.strategy = "axonn";
    compile_model(flags);
    EXPECT_FALSE(refined(flags.output));
  }
  std::printf("layout %.4g s, refined %.4g s\n", seconds[0], seconds[1]);
  EXPECT_LT(seconds[1], 0.98 * seconds[0]);
}

Module training_module(const ZooModel& zoo, std::int64_t batch) {
  const Scratch scratch;
  write_zoo_model(zoo, scratch / "model.onnx");
  ImportOptions import;
  import.model = scratch / "model.onnx";
  import.bindings = {{"batch", batch}, { "sequence", zoo.sequence }};
  Module module = import_onnx(import).module;
  PassContext context;
  context.options.train = true;
  PassManager({{}, false}).run(module, logical_passes(true), context);
  return module;
}

SearchSpace space_of(const std::string& strategy, int devices, double memory) {
  SearchSpace space;
  space.strategy = strategy_named(strategy);
  space.devices = devices;
  space.memory_bytes = memory;
  return space;
}

// One sweep gives the best of every strategy: the same as a search for it alone, and none is better
// than auto.
TEST(Strategies, AreInTheSpaceOfAuto) {
  const Module module = training_module({"gpt", 4, 2048, 16, 8192, 512, 0, 0, DType::BF16}, 64);
  for (const char* name : {"perlmutter", "frontier", "ethernet-cluster"}) {
    const Machine machine = load_machine(name);
    const StepModel model(module, machine);
    for (const int devices : {16, 64}) {
      const double memory = 6e9;
      const SearchResult all = search(model, space_of("auto", devices, memory));
      ASSERT_TRUE(all.by_strategy[0] && all.by_strategy[0]->fits);
      EXPECT_GE(all.by_strategy[0]->seconds, all.lower_bound);
      EXPECT_NEAR(all.candidates[0].seconds, all.by_strategy[0]->seconds,
                  1e-6 * all.candidates[0].seconds);
      for (std::size_t i = 0; i < strategies().size(); ++i) {
        const std::string& strategy = strategies()[i].name;
        const SearchResult own = search(model, space_of(strategy, devices, memory));
        ASSERT_EQ(own.candidates.empty(), !all.by_strategy[i]) << strategy;
        if (own.candidates.empty()) continue;
        EXPECT_EQ(own.candidates[0].fits, all.by_strategy[i]->fits) << strategy;
        if (!own.candidates[0].fits) continue;
        EXPECT_NEAR(own.candidates[0].seconds, all.by_strategy[i]->seconds,
                    1e-6 * own.candidates[0].seconds)
            << strategy << devices << name;
        EXPECT_LE(all.by_strategy[0]->seconds, own.candidates[0].seconds * (1 + 1e-8)) << strategy;
      }
    }
  }
}

// Nothing about a machine is written into the search (cases G2): faster links make communication
// cheaper, less memory makes smaller plans, and too little is refused with the least need.
TEST(Search, FollowsTheMachineFile) {
  const Module module = training_module({"gpt", 4, 2048, 16, 8192, 512, 0, 0, DType::BF16}, 64);
  Machine machine = load_machine("perlmutter");
  const double memory = 40e9;
  const SearchResult before = search(StepModel(module, machine), space_of("axonn", 16, memory));
  const SearchResult small = search(StepModel(module, machine), space_of("axonn", 16, memory / 8));
  ASSERT_TRUE(small.candidates[0].fits);
  EXPECT_LE(small.candidates[0].memory, memory / 8);
  EXPECT_GE(small.candidates[0].seconds, before.candidates[0].seconds);
  const SearchResult none = search(StepModel(module, machine), space_of("axonn", 16, 1e9));
  EXPECT_FALSE(none.candidates[0].fits);
  EXPECT_GT(none.candidates[0].memory, 1e9);
  for (Link& link : machine.links) link.bandwidth *= 10;
  for (Measured& table : machine.measured) {
    for (auto& [size, bandwidth] : table.bandwidth) bandwidth *= 10;
  }
  const SearchResult fast = search(StepModel(module, machine), space_of("axonn", 16, memory));
  EXPECT_LT(fast.candidates[0].seconds, before.candidates[0].seconds);
  const StepModel model(module, machine);
  const Estimate same = model.estimate(before.candidates[0].choice);
  EXPECT_LT(same.communication, 0.3 * before.candidates[0].communication);
  EXPECT_NEAR(same.compute, before.candidates[0].compute, 1e-9 * same.compute);
}

TEST(Search, RefusalsSayWhatToChange) {
  const Scratch scratch;
  write_zoo_model({"gpt", 2, 64, 4, 61, 16, 0, 0, DType::F32}, scratch / "m.onnx");
  const auto says = [&](auto change) {
    CompileFlags flags = training(scratch, "batch=4,sequence=16", "perlmutter", 8);
    change(flags);
    try {
      compile_model(flags);
    } catch (const CompileError& error) {
      EXPECT_FALSE(fs::exists(flags.output));
      return std::string(error.what());
    }
    return std::string("compiled");
  };
  EXPECT_NE(says([](CompileFlags& f) { f.devices = 0; }).find("--devices"), std::string::npos);
  EXPECT_EQ(says([](CompileFlags& f) { f.machine = ""; }), "compiled");  // this machine
  EXPECT_EQ(read_plan(scratch / "plan").notes.at("machine"), "localhost");
  fs::remove_all(scratch / "plan");
  EXPECT_NE(says([](CompileFlags& f) { f.machine = "none"; }).find("presets"), std::string::npos);
  EXPECT_NE(says([](CompileFlags& f) { f.strategy = "zero9"; }).find("strategies"),
            std::string::npos);
  EXPECT_NE(says([](CompileFlags& f) { f.grid = "data=3,z=*"; }).find("has 8 devices"),
            std::string::npos);
  EXPECT_EQ(says([](CompileFlags& f) { f.grid = "data=2,z=*,y=2"; }), "compiled");
  EXPECT_EQ(read_plan(scratch / "plan").grid.text(), "data=2,z=2,y=2,x=1");
  // A device with less memory than the runtime takes: the least need is named.
  std::string json;
  for (const Preset& preset : machine_presets()) {
    if (preset.name == "perlmutter") json = preset.json;
  }
  json.replace(json.find("4e+10"), 5, "1e+09");
  write_text(scratch / "small.json", json);
  fs::remove_all(scratch / "plan");
  const std::string refusal =
      says([&](CompileFlags& f) { f.machine = (scratch / "small.json").string(); });
  EXPECT_NE(refusal.find("the smallest need is"), std::string::npos) << refusal;
  EXPECT_NE(refusal.find("parameters"), std::string::npos) << refusal;
  EXPECT_NE(refusal.find("more devices"), std::string::npos) << refusal;
}

}  // namespace
}  // namespace tessera::test
