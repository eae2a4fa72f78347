// Collectives in flight change when things happen, never what comes out: every kind of overlap,
// alone and together, gives the same bits as none, with every setting, on threads and under MPI.
#include <functional>

#include "passes/pass.h"
#include "test/support/compile.h"
#include "test/support/shell.h"

namespace tessera::test {
namespace {

constexpr const char* kGrid = "data=2,z=2,y=2,x=2";

struct Outcome {
  std::string weights, gradients, log;
  bool operator==(const Outcome&) const = default;
};

std::string bytes_of(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// Without what differs from run to run.
std::string losses_of(const fs::path& path) {
  std::string text;
  for (const StepLog& step : read_log(path)) text += str(step.loss, " ", step.grad_norm, "\n");
  return text;
}

Outcome train(const ModelCase& model, const fs::path& plan, std::int64_t steps,
              std::optional<std::uint64_t> delays = {}) {
  const Scratch scratch;
  SessionOptions session = model.session(plan, true);
  session.steps = steps;
  session.log = scratch / "log";
  session.save_weights = scratch / "weights";
  session.dump_gradients = scratch / "grads";
  session.execution.delay_seed = delays;
  EXPECT_EQ(run(session), 0);
  return {bytes_of(scratch / "weights"), bytes_of(scratch / "grads"), losses_of(scratch / "log")};
}

struct Case {
  const char* model;
  const char* what;
  Settings settings;
};

Settings with(const std::function<void(Settings&)>& change) {
  Settings settings;
  change(settings);
  return settings;
}

class Overlapped : public testing::TestWithParam<Case> {
 protected:
  fs::path compiled(const Scratch& scratch, const std::string& overlap) {
    CompileFlags flags = model_.training(kGrid, scratch / (overlap + ".plan"));
    static_cast<Settings&>(flags.options) = GetParam().settings;
    flags.options.overlap = parse_overlap(overlap);
    flags.options.clip_norm = 1;
    compile_model(flags);
    return flags.output;
  }
  const ModelCase model_{GetParam().model};
};

TEST_P(Overlapped, EveryKindGivesTheSameBits) {
  constexpr std::int64_t kSteps = 20;
  const Scratch scratch;
  const Outcome expected = train(model_, compiled(scratch, "none"), kSteps);
  for (const char* overlap : {"oar", "ors", "oag", "other", "oar,ors,oag", "all"})
    EXPECT_EQ(train(model_, compiled(scratch, overlap), kSteps), expected) << overlap;
  const char* text = std::getenv("TESSERA_SEEDS");
  const int seeds = text == nullptr ? 1 : std::atoi(text);
  for (int seed = 0; seed < seeds; ++seed) {
    const auto delays = static_cast<std::uint64_t>(seed);
    EXPECT_EQ(train(model_, scratch / "all.plan", kSteps, delays), expected) << seed;
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, Overlapped,
    testing::Values(Case{"gpt2_tiny", "plain", {}}, Case{"llama_tiny", "plain", {}},
                    Case{"bert_tiny", "zero1", with([](Settings& s) { s.zero1 = true; })},
                    Case{"gpt2_odd", "everything", with([](Settings& s) {
                           s = {2, Recompute::Block, true, true, true, true};
                         })},
                    Case{"gpt2_dynamo", "sub_batches", with([](Settings& s) {
                           s.sub_batches = 2;
                           s.recompute = Recompute::Selective;
                           s.regather = s.scatter_tokens = s.scatter_features = true;
                         })},
                    Case{"llama_dynamo", "regather", with([](Settings& s) {
                           s.regather = s.scatter_tokens = true;
                           s.micro_batches = 3;
                         })}),
    [](const auto& one) { return std::string(one.param.model) + "_" + one.param.what; });

TEST(OverlapUnderMpi, GivesTheBitsOfThreads) {
  if (!has_mpi()) GTEST_SKIP() << "this build has no MPI";
  const ModelCase model("gpt2_tiny");
  const Scratch scratch;
  CompileFlags flags = model.training(kGrid, scratch / "plan");
  flags.options.overlap = all_overlap();
  compile_model(flags);
  constexpr std::int64_t kSteps = 20;
  const Outcome threads = train(model, flags.output, kSteps);
  const Finished finished =
      shell(str(tool("tessera-run"), " ", flags.output.string(), " --ranks mpi:16 --quiet --steps ",
                kSteps, " --input input_ids=", (model.folder / "input_ids.npy").string(),
                " --input labels=", (model.folder / "labels.npy").string(), " --log ",
                (scratch / "log").string(), " --save-weights ", (scratch / "weights").string(),
                " --dump-gradients ", (scratch / "grads").string()));
  ASSERT_EQ(finished.code, 0) << finished.output;
  const Outcome processes{bytes_of(scratch / "weights"), bytes_of(scratch / "grads"),
                          losses_of(scratch / "log")};
  EXPECT_EQ(processes, threads);
}

TEST(OverlapUnderMpi, LinksAreModelledBetweenThreadsOnly) {
  if (!has_mpi()) GTEST_SKIP() << "this build has no MPI";
  const ModelCase model("gpt2_tiny");
  const Scratch scratch;
  compile_model(model.training("data=2", scratch / "plan"));
  const Finished finished = shell(str(
      tool("tessera-run"), " ", (scratch / "plan").string(),
      " --ranks mpi:2 --link alpha=1us,beta=1GB/s --random-weights 1 --steps 1 --input input_ids=",
      (model.folder / "input_ids.npy").string(),
      " --input labels=", (model.folder / "labels.npy").string()));
  EXPECT_EQ(finished.code, 2) << finished.output;
  EXPECT_NE(finished.output.find("--link"), std::string::npos) << finished.output;
}

}  // namespace
}  // namespace tessera::test
