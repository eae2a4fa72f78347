// Training and inference of whole exported models on grids, against double-precision references:
// logits, every raw gradient, the gradient norm and twelve AdamW losses.
#include <cmath>

#include "passes/search/strategies.h"
#include "test/support/compile.h"
#include "test/support/grids.h"

namespace tessera::test {
namespace {

const char* const kModels[] = {"gpt2_tiny", "gpt2_odd",    "llama_tiny",
                               "bert_tiny", "gpt2_dynamo", "llama_dynamo"};

class Models : public testing::TestWithParam<std::tuple<const char*, std::string>> {};

void check_gradients(const ModelCase& model, const std::map<std::string, Tensor>& found) {
  double total = 0;
  for (const auto& [name, tensor] : model.reference) {
    if (name.starts_with("grad.")) total += norm(tensor) * norm(tensor);
  }
  total = std::sqrt(total);
  for (const auto& name : model.info.at("parameters")) {
    const std::string parameter = name.get<std::string>();
    ASSERT_TRUE(found.contains(parameter)) << parameter;
    const Tensor& expected = model.reference.at("grad." + parameter);
    ASSERT_EQ(found.at(parameter).shape(), expected.shape()) << parameter;
    EXPECT_LE(distance(found.at(parameter), expected), 1e-4 * norm(expected) + 1e-6 * total)
        << parameter;
  }
  EXPECT_EQ(found.size(), model.info.at("parameters").size());
}

void check_training(const ModelCase& model, const Scratch& scratch) {
  SessionOptions session = model.session(scratch / "plan", true);
  session.steps = 12;
  session.log = scratch / "log.jsonl";
  session.dump_gradients = scratch / "grads.safetensors";
  ASSERT_EQ(run(session), 0);
  check_gradients(model, read_safetensors(session.dump_gradients));
  const std::vector<StepLog> log = read_log(session.log);
  ASSERT_EQ(log.size(), 12u);
  const double grad_norm = model.reference.at("grad_norm").number(0);
  EXPECT_NEAR(log[0].grad_norm, grad_norm, 1e-5 * grad_norm);
  for (std::size_t i = 0; i < log.size(); ++i) {
    const double expected = model.reference.at("adamw_losses").number(static_cast<std::int64_t>(i));
    EXPECT_NEAR(log[i].loss, expected, 1e-4 * expected) << "step " << i;
  }
}

TEST_P(Models, TrainAsTheReference) {
  const auto& [name, grid] = GetParam();
  const ModelCase model(name);
  const Scratch scratch;
  compile_model(model.training(grid, scratch / "plan"));
  check_training(model, scratch);
}

// Pins change how things lie, never values; what cannot be obeyed is refused with the reason.
TEST(Pins, AreObeyedOrRefused) {
  const ModelCase model("gpt2_tiny");
  const std::string grid = "data=1,z=2,y=2,x=2";
  const std::vector<std::vector<std::string>> obeyed{
      {".*c_fc.weight={z}, {x}"},
      {"wte.weight={}, {y,z}"},
      {".*c_fc.weight={}, {}", ".*ln_1.weight={x}"},
      {"h.0.c_proj.weight={x}, {}, {y,z}", "h.1.m_proj.weight={x,y,z}, {}"},
  };
  for (const std::vector<std::string>& pins : obeyed) {
    const Scratch scratch;
    SCOPED_TRACE(join(pins, "; "));
    CompileFlags flags = model.training(grid, scratch / "plan");
    flags.options.pins = pins;
    compile_model(flags);
    const Plan plan = read_plan(flags.output);
    const PlanFunc& micro = *plan.find("micro");
    for (const PlanArg& arg : micro.args) {
      const PlanValue& value = micro.values[static_cast<std::size_t>(arg.value)];
      if (value.name == "wte.weight" && pins[0].starts_with("wte")) {
        EXPECT_EQ(to_text(value.type, plan.grid), "f32[96, 64{y,z}]");
      }
      if (value.name == "h.1.c_fc.weight" && pins[0].starts_with(".*c_fc.weight={z}")) {
        EXPECT_EQ(to_text(value.type, plan.grid), "f32[64{z}, 256{x}]");
      }
    }
    check_training(model, scratch);
  }
  const std::vector<std::pair<std::string, std::string>> refused{
      {"nobody={x}", "no parameter"},
      {".*c_fc.weight={x}", "2 dimensions"},
      {".*c_fc.weight={w}, {}", "no axis"},
      {".*c_fc.weight={x}, {x}", "two dimensions"},
      {".*c_fc.weight=7{x}, {}", "size"},
      {"(={x}", "regular expression"},
      {"x", "expected"},
      {".*c_fc.weight={x, {y}", "brace"}};
  for (const auto& [pin, reason] : refused) {
    const Scratch scratch;
    CompileFlags flags = model.training(grid, scratch / "plan");
    flags.options.pins = {pin};
    try {
      compile_model(flags);
      ADD_FAILURE() << pin;
    } catch (const CompileError& error) {
      EXPECT_NE(std::string(error.what()).find(reason), std::string::npos) << error.what();
    }
    EXPECT_FALSE(fs::exists(scratch / "plan"));
  }
}

// Loops assigned op by op: whatever is cheapest is still right.
TEST_P(Models, TrainAsTheReferenceWhenRefined) {
  const auto& [name, grid] = GetParam();
  const ModelCase model(name);
  const Scratch scratch;
  CompileFlags flags = model.training(grid, scratch / "plan");
  if (Grid::parse(grid, "test").ranks() > 8) return;  // solved in seconds, but not many times
  flags.options.refine = Refine::On;
  flags.options.machine = "perlmutter";
  compile_model(flags);
  check_training(model, scratch);
}

// The search can change speed, never values: what it chooses under every strategy, and with every
// setting that trades time for memory.
class ChosenPlans : public testing::TestWithParam<const char*> {};

TEST_P(ChosenPlans, TrainAsTheReference) {
  const ModelCase model(GetParam());
  for (const Strategy& strategy : strategies()) {
    for (const bool all_settings : {false, true}) {
      const Scratch scratch;
      CompileFlags flags = model.training("", scratch / "plan");
      flags.devices = 8;
      flags.strategy = strategy.name;
      flags.any_micro_batches = !all_settings;
      if (all_settings) {
        flags.fixed.recompute = Recompute::Block;
        flags.fixed.regather = flags.fixed.zero1 = true;
        flags.fixed.scatter_tokens = flags.fixed.scatter_features = true;
        flags.options.micro_batches = 2;
      }
      SCOPED_TRACE(str(strategy.name, all_settings ? " with all settings" : ""));
      try {
        compile_model(flags);
      } catch (const CompileError& error) {
        EXPECT_NE(std::string(error.what()).find("forms no grid"), std::string::npos)
            << error.what();
        continue;
      }
      check_training(model, scratch);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, ChosenPlans, testing::ValuesIn(kModels),
                         [](const auto& test) { return std::string(test.param); });

TEST_P(Models, InferAsTheReference) {
  const auto& [name, grid] = GetParam();
  const ModelCase model(name);
  const Scratch scratch;
  CompileFlags flags = model.flags(grid, scratch / "plan");
  flags.infer = true;
  compile_model(flags);
  SessionOptions session = model.session(scratch / "plan", false);
  session.outputs[model.info.at("logits").get<std::string>()] = scratch / "logits.npy";
  ASSERT_EQ(run(session), 0);
  const Tensor logits = read_npy(scratch / "logits.npy");
  const Tensor& expected = model.reference.at("logits");
  ASSERT_EQ(logits.shape(), expected.shape());
  EXPECT_LE(distance(logits, expected), 1e-5 * norm(expected));
}

std::string case_name(const testing::TestParamInfo<Models::ParamType>& info) {
  std::string grid = std::get<1>(info.param);
  for (char& c : grid) c = std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  return str(std::get<0>(info.param), "_", grid);
}

INSTANTIATE_TEST_SUITE_P(All, Models,
                         testing::Combine(testing::ValuesIn(kModels),
                                          testing::ValuesIn(model_grids())),
                         case_name);

}  // namespace
}  // namespace tessera::test
