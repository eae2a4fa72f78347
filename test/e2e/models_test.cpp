// Training and inference of whole exported models on grids, against double-precision references:
// logits, every raw gradient, the gradient norm and twelve AdamW losses.
#include <cmath>

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

TEST_P(Models, TrainAsTheReference) {
  const auto& [name, grid] = GetParam();
  const ModelCase model(name);
  const Scratch scratch;
  compile_model(model.training(grid, scratch / "plan"));
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
