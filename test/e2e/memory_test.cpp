// What trades time for memory changes no number: recompute and gathering again give every loss,
// gradient and weight bit for bit; ZeRO-1 sums in another order.
#include "codegen/predict_plan.h"
#include "ir/base/file.h"
#include "test/support/compile.h"

namespace tessera::test {
namespace {

struct Trained {
  std::string log, weights, gradients;
  std::int64_t arena = 0;
};

// What is predicted holds what is live at any time, and little more; every communicator counts
// (cases G3).
void check_prediction(const Plan& plan) {
  const Machine machine = load_machine("perlmutter");
  const Prediction p = predict(plan, machine);
  double live = 0;
  for (const TimelineEvent& event : p.timeline) live = std::max(live, event.memory);
  const auto arena = static_cast<double>(plan.arena_bytes);
  EXPECT_GE(arena, live);
  EXPECT_LE(arena, 1.15 * live);
  const auto communicators = static_cast<double>(plan.comms.size());
  EXPECT_NEAR(
      p.memory_total,
      arena + machine.device.runtime_bytes + machine.device.communicator_bytes * communicators, 1);
}

Trained train(const ModelCase& model, const CompileFlags& flags, const Scratch& scratch) {
  compile_model(flags);
  check_prediction(read_plan(flags.output));
  SessionOptions session = model.session(flags.output, true);
  session.steps = 3;
  session.log = scratch / "log";
  session.save_weights = scratch / "weights";
  session.dump_gradients = scratch / "gradients";
  EXPECT_EQ(run(session), 0);
  return {read_text(session.log), read_text(session.save_weights),
          read_text(session.dump_gradients), read_plan(flags.output).arena_bytes};
}

class Memory : public testing::TestWithParam<std::tuple<const char*, const char*>> {};

TEST_P(Memory, RecomputeChangesNoBit) {
  const auto& [name, grid] = GetParam();
  const ModelCase model(name);
  const Scratch scratch;
  const Trained kept = train(model, model.training(grid, scratch / "plan"), scratch);
  for (const Recompute mode : {Recompute::None, Recompute::Selective, Recompute::Block}) {
    for (const bool regather : {false, true}) {
      CompileFlags flags = model.training(grid, scratch / "again");
      flags.options.recompute = mode;
      flags.options.regather = regather;
      const Trained again = train(model, flags, scratch);
      EXPECT_EQ(kept.gradients, again.gradients) << static_cast<int>(mode) << regather;
      EXPECT_EQ(kept.weights, again.weights) << static_cast<int>(mode) << regather;
      // Buffers are placed anew: a few percent either way in models this small.
      EXPECT_LE(static_cast<double>(again.arena), 1.05 * static_cast<double>(kept.arena))
          << static_cast<int>(mode) << regather;
    }
  }
}

TEST_P(Memory, OptimizerStateOverDataGivesTheSameNumbers) {
  const auto& [name, grid] = GetParam();
  const ModelCase model(name);
  for (const auto& [micro_batches, optimizer] : {std::pair{1, "adamw:lr=1e-3"},
                                                 {3, "adamw:lr=1e-3"},
                                                 {1, "sgd:lr=0.1,momentum=0.9"},
                                                 {3, "sgd:lr=0.1"}}) {
    const Scratch scratch;
    CompileFlags flags = model.training(grid, scratch / "plan");
    flags.options.micro_batches = micro_batches;
    flags.options.clip_norm = 1.0;
    flags.optimizer = optimizer;
    const Trained copied = train(model, flags, scratch);
    const auto expected_log = read_log(scratch / "log");
    const auto expected = read_safetensors(scratch / "weights");
    flags.output = scratch / "zero1";
    flags.options.zero1 = true;
    const Trained cut = train(model, flags, scratch);
    const auto log = read_log(scratch / "log");
    ASSERT_EQ(log.size(), expected_log.size());
    for (std::size_t i = 0; i < log.size(); ++i) {
      EXPECT_NEAR(log[i].loss, expected_log[i].loss, 2e-6 * expected_log[i].loss);
      EXPECT_NEAR(log[i].grad_norm, expected_log[i].grad_norm, 1e-5 * expected_log[i].grad_norm);
    }
    const Grid parsed = Grid::parse(grid, "test");
    if (parsed.size(parsed.find("data")) > 1) {
      EXPECT_LE(cut.arena, copied.arena);
    }
    if (optimizer == std::string("adamw:lr=1e-3")) continue;  // it scales noise up to the rate
    for (const auto& [param, tensor] : read_safetensors(scratch / "weights"))
      EXPECT_LE(distance(tensor, expected.at(param)), 1e-5 * norm(expected.at(param))) << param;
  }
}

// Cutting what would be copied gives the same numbers, with less memory.
TEST_P(Memory, ScatteredActivationsGiveTheSameNumbers) {
  const auto& [name, grid] = GetParam();
  const ModelCase model(name);
  const Scratch scratch;
  CompileFlags flags = model.training(grid, scratch / "plan");
  train(model, flags, scratch);
  const auto expected = read_safetensors(scratch / "gradients");
  double total = 0;
  for (const auto& [param, tensor] : expected) total += norm(tensor) * norm(tensor);
  for (const auto& [tokens, features] : {std::pair{true, false}, {false, true}, {true, true}}) {
    for (const Recompute mode : {Recompute::None, Recompute::Block}) {
      flags.options.scatter_tokens = tokens;
      flags.options.scatter_features = features;
      flags.options.recompute = mode;
      flags.options.regather = mode == Recompute::Block;
      train(model, flags, scratch);
      for (const auto& [param, tensor] : read_safetensors(scratch / "gradients"))
        EXPECT_LE(distance(tensor, expected.at(param)),
                  1e-5 * norm(expected.at(param)) + 1e-6 * std::sqrt(total))
            << param << tokens << features;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Grids, Memory,
    testing::Combine(testing::Values("gpt2_odd", "llama_tiny", "gpt2_dynamo", "llama_dynamo"),
                     testing::Values("data=1,z=1,y=1,x=1", "data=2,z=2,y=2,x=1",
                                     "data=2,z=1,y=1,x=3", "data=1,z=1,y=2,x=2",
                                     "data=1,z=2,y=3,x=2", "data=3,z=2,y=1,x=1")));

}  // namespace
}  // namespace tessera::test
