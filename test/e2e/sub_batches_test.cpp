// Micro-batches that are computed in parts: the losses and gradients of the whole, whatever else is
// on.
#include "ir/base/file.h"
#include "passes/search/choice.h"
#include "test/support/compile.h"

namespace tessera::test {
namespace {

std::map<std::string, Tensor> gradients_of(const ModelCase& model, const fs::path& plan) {
  const Scratch scratch;
  SessionOptions session = model.session(plan, true);
  session.steps = 2;
  session.log = scratch / "log";
  session.dump_gradients = scratch / "gradients";
  EXPECT_EQ(run(session), 0);
  std::map<std::string, Tensor> tensors = read_safetensors(scratch / "gradients");
  const std::vector<StepLog> log = read_log(scratch / "log");
  Tensor losses(DType::F64, {static_cast<std::int64_t>(log.size())});
  for (std::size_t i = 0; i < log.size(); ++i) losses.mutable_view<double>()[i] = log[i].loss;
  tensors["losses"] = losses;
  return tensors;
}

class SubBatches : public testing::TestWithParam<std::tuple<const char*, const char*>> {};

TEST_P(SubBatches, GiveTheNumbersOfTheWhole) {
  const auto& [name, grid] = GetParam();
  const ModelCase model(name);
  for (const Settings& settings : {Settings{}, Settings{.micro_batches = 2, .zero1 = true},
                                   Settings{.recompute = Recompute::Block, .regather = true},
                                   Settings{.micro_batches = 1,
                                   .recompute = Recompute::Selective,
                                   .scatter_tokens = true,
                                   .scatter_features = true}}) {
    const Scratch scratch;
    CompileFlags flags = model.training(grid, scratch / "plan");
    static_cast<Settings&>(flags.options) = settings;
    const std::int64_t batch = read_npy(model.folder / "labels.npy").shape()[0];
    if (settings.micro_batches > 1 && batch % 4 != 0) flags.options.micro_batches = batch / 2;
    flags.options.overlap = all_overlap();
    compile_model(flags);
    const auto whole = gradients_of(model, flags.output);
    double total = 0;
    for (const auto& [param, tensor] : whole) total += norm(tensor) * norm(tensor);
    flags.options.sub_batches = 2;
    flags.output = scratch / "parts";
    compile_model(flags);
    const auto parts = gradients_of(model, flags.output);
    ASSERT_EQ(parts.size(), whole.size());
    for (const auto& [param, tensor] : whole) {
      EXPECT_LE(distance(parts.at(param), tensor), 1e-5 * norm(tensor) + 1e-6 * std::sqrt(total))
          << param << ", " << settings_text(settings, false);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, SubBatches,
    testing::Combine(testing::Values("gpt2_tiny", "gpt2_odd", "llama_tiny", "bert_tiny",
                                     "gpt2_dynamo", "llama_dynamo"),
                     testing::Values("data=1,z=1,y=2,x=3", "data=2,z=2,y=2,x=1")));

TEST(SubBatches, ThatDoNotDivideAreRefused) {
  const ModelCase model("gpt2_tiny");
  const Scratch scratch;
  CompileFlags flags = model.training("data=2", scratch / "plan");
  flags.options.sub_batches = 3;
  try {
    compile_model(flags);
    FAIL() << "was compiled";
  } catch (const CompileError& error) {
    EXPECT_EQ(std::string(error.what()),
              "--sub-batches: error: cannot be 3: a micro-batch has 8 samples");
  }
  EXPECT_FALSE(fs::exists(flags.output));
}

// The plan's word on how inputs are cut is checked against the inputs.
TEST(SubBatches, PlansWhoseNoteIsWrongAreRefused) {
  const ModelCase model("gpt2_tiny");
  const Scratch scratch;
  CompileFlags flags = model.training("data=2", scratch / "plan");
  flags.options.sub_batches = 2;
  compile_model(flags);
  const std::string text = read_text(flags.output / "plan.txt");
  const std::string note = "note \"sub_batches.input_ids\" \"2\"";
  ASSERT_NE(text.find(note), std::string::npos);
  for (const char* value : {"3", "0", "-1", "two", "99999999999999999999", ""}) {
    std::string changed = text;
    changed.replace(changed.find(note), note.size(),
                    str("note \"sub_batches.input_ids\" \"", value, "\""));
    write_text(flags.output / "plan.txt", changed);
    EXPECT_THROW(run(model.session(flags.output, true)), CompileError) << value;
  }
}

}  // namespace
}  // namespace tessera::test
