// What a user does besides training on a grid: micro-batches, checkpoints, MPI, token streams, and
// mistakes.
#include <sys/wait.h>

#include <cmath>

#include "ir/base/file.h"
#include "test/support/compile.h"
#include "test/support/shell.h"

namespace tessera::test {
namespace {

std::string compile_line(const ModelCase& model, const std::string& rest) {
  return str(tool("tessera"), " compile ", (model.folder / "model.onnx").string(), " ", rest);
}

// Gradients and losses of N micro-batches are those of the whole batch, also when N does not divide
// it.
TEST(MicroBatches, GiveTheGradientsOfTheWholeBatch) {
  const ModelCase model("gpt2_odd");
  for (const std::int64_t count : {2, 3, 4}) {
    const Scratch scratch;
    CompileFlags flags = model.training("data=2,z=2,y=1,x=2", scratch / "plan");
    flags.options.micro_batches = count;
    compile_model(flags);
    SessionOptions session = model.session(scratch / "plan", true);
    session.steps = 3;
    session.log = scratch / "log";
    session.dump_gradients = scratch / "grads";
    ASSERT_EQ(run(session), 0);
    const auto log = read_log(session.log);
    for (std::size_t i = 0; i < log.size(); ++i) {
      const double expected =
          model.reference.at("adamw_losses").number(static_cast<std::int64_t>(i));
      EXPECT_NEAR(log[i].loss, expected, 1e-5 * expected) << count << " micro-batches, step " << i;
    }
    const auto grads = read_safetensors(session.dump_gradients);
    double total = model.reference.at("grad_norm").number(0);
    for (const auto& [name, tensor] : grads) {
      const Tensor& expected = model.reference.at("grad." + name);
      EXPECT_LE(distance(tensor, expected), 1e-4 * norm(expected) + 1e-6 * total) << name;
    }
  }
}

// Clipping scales by the global norm: with plain SGD the first update is lr * clip / norm *
// gradient.
TEST(Clipping, ScalesByTheGlobalNorm) {
  const ModelCase model("gpt2_tiny");
  const Scratch scratch;
  CompileFlags flags = model.training("data=1,z=2,y=2,x=2", scratch / "plan");
  flags.optimizer = "sgd:lr=1.0";
  flags.options.clip_norm = 0.5;
  compile_model(flags);
  SessionOptions session = model.session(scratch / "plan", true);
  session.steps = 0;
  session.save_weights = scratch / "before";
  ASSERT_EQ(run(session), 0);
  session.steps = 1;
  session.save_weights = scratch / "after";
  ASSERT_EQ(run(session), 0);
  const auto before = read_safetensors(scratch / "before"),
             after = read_safetensors(scratch / "after");
  double moved = 0;
  for (const auto& [name, tensor] : before) moved += std::pow(distance(tensor, after.at(name)), 2);
  EXPECT_NEAR(std::sqrt(moved), 0.5, 1e-4);
}

TEST(Checkpoints, ResumeBitForBitAndOnOtherGrids) {
  const ModelCase model("llama_tiny");
  const Scratch scratch;
  compile_model(model.training("data=2,z=1,y=2,x=1", scratch / "plan"));
  compile_model(model.training("data=1,z=3,y=1,x=2", scratch / "other"));
  SessionOptions whole = model.session(scratch / "plan", true);
  whole.steps = 6;
  whole.log = scratch / "whole.log";
  whole.save_weights = scratch / "whole.st";
  ASSERT_EQ(run(whole), 0);
  SessionOptions first = model.session(scratch / "plan", true);
  first.steps = 3;
  first.checkpoint = scratch / "checkpoints";
  ASSERT_EQ(run(first), 0);
  SessionOptions second = model.session(scratch / "plan", true);
  second.steps = 6;
  second.resume = scratch / "checkpoints";
  second.save_weights = scratch / "resumed.st";
  ASSERT_EQ(run(second), 0);
  EXPECT_EQ(read_text(scratch / "whole.st"), read_text(scratch / "resumed.st"));
  SessionOptions moved = model.session(scratch / "other", true);
  moved.steps = 4;
  moved.resume = scratch / "checkpoints";
  moved.log = scratch / "moved.log";
  ASSERT_EQ(run(moved), 0);
  EXPECT_NEAR(read_log(scratch / "moved.log").at(0).loss,
              read_log(scratch / "whole.log").at(3).loss, 1e-6 * 5);
}

TEST(Checkpoints, DamagedOnesAreRefused) {
  const ModelCase model("gpt2_tiny");
  const Scratch scratch;
  compile_model(model.training("data=2", scratch / "plan"));
  SessionOptions session = model.session(scratch / "plan", true);
  session.steps = 1;
  session.checkpoint = scratch / "c";
  ASSERT_EQ(run(session), 0);
  const fs::path state = scratch / "c" / "step-00000001" / "state.safetensors";
  std::string bytes = read_text(state);
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
  write_text(state, bytes);
  session.checkpoint.clear();
  session.resume = scratch / "c";
  EXPECT_EQ(run(session), 2);
  session.resume = scratch / "nothing";
  EXPECT_EQ(run(session), 2);
}

TEST(Runs, AreBitwiseEqualForThreadsAndProcesses) {
  if (!has_mpi()) GTEST_SKIP() << "this build has no MPI";
  const ModelCase model("gpt2_odd");
  const Scratch scratch;
  compile_model(model.training("data=2,z=2,y=2,x=1", scratch / "plan"));
  const std::string inputs =
      str(" --steps 3 --quiet --input input_ids=", (model.folder / "input_ids.npy").string(),
          " --input labels=", (model.folder / "labels.npy").string());
  const std::string run = str(tool("tessera-run"), " ", (scratch / "plan").string(), inputs);
  for (const auto& [ranks, name] : {std::pair{"local", "a"}, {"local", "b"}, {"mpi:8", "c"}}) {
    const Finished done = shell(str(
        "timeout -k 5 120 ", run, " --ranks ", ranks, " --save-weights ", (scratch / name).string(),
        " --dump-gradients ", (scratch / (std::string(name) + "g")).string()));
    ASSERT_EQ(done.code, 0) << done.output;
  }
  EXPECT_EQ(read_text(scratch / "a"), read_text(scratch / "b"));
  EXPECT_EQ(read_text(scratch / "a"), read_text(scratch / "c"));
  EXPECT_EQ(read_text(scratch / "ag"), read_text(scratch / "cg"));
}

// Every grid sees the same batches of a token stream.
TEST(TokenStreams, DoNotDependOnTheGrid) {
  const ModelCase model("gpt2_tiny");
  const Scratch scratch;
  std::string tokens;
  for (int i = 0; i < 3000; ++i) tokens += {static_cast<char>((i * 7 + i / 13) % 96), '\0'};
  write_text(scratch / "tokens.bin", tokens);
  std::vector<double> losses;
  for (const char* grid : {"data=1", "data=4,z=2,y=1,x=1", "data=1,z=1,y=2,x=2"}) {
    CompileFlags flags = model.training(grid, scratch / "plan");
    compile_model(flags);
    SessionOptions session;
    session.plan_folder = scratch / "plan";
    session.batches.data = scratch / "tokens.bin";
    session.quiet = true;
    session.steps = 4;
    session.log = scratch / "log";
    ASSERT_EQ(run(session), 0);
    losses.push_back(read_log(session.log).at(3).loss);
  }
  EXPECT_NEAR(losses[1], losses[0], 1e-5);
  EXPECT_NEAR(losses[2], losses[0], 1e-5);
}

std::map<std::string, Tensor> gradients_with(const CompileFlags& flags, const ModelCase& model,
                                             const Scratch& scratch) {
  compile_model(flags);
  SessionOptions session = model.session(flags.output, true);
  session.dump_gradients = scratch / "grads";
  EXPECT_EQ(run(session), 0);
  return read_safetensors(session.dump_gradients);
}

// What is trained is the user's choice: frozen parameters have no gradient, untied copies have one
// each.
TEST(Parameters, CanBeFrozenAndKeptApart) {
  const ModelCase model("gpt2_tiny");
  const Scratch scratch;
  CompileFlags flags = model.training("data=1,z=1,y=2,x=2", scratch / "plan");
  const std::size_t all = model.info.at("parameters").size();
  flags.freeze = {"^wpe", "ln_f"};
  const auto frozen = gradients_with(flags, model, scratch);
  EXPECT_EQ(frozen.size(), all - 3);
  EXPECT_FALSE(frozen.contains("wpe.weight"));
  flags.freeze = {};
  flags.retie = false;
  EXPECT_EQ(gradients_with(flags, model, scratch).size(), all + 1);
  flags.freeze = {"no such parameter"};
  EXPECT_THROW(compile_model(flags), CompileError);
}

TEST(Check, ComparesWithOneDevice) {
  const ModelCase model("llama_dynamo");
  const Scratch scratch;
  compile_model(model.training("data=1,z=2,y=4,x=1", scratch / "plan"));
  const Finished done =
      shell(str(tool("tessera-run"), " ", (scratch / "plan").string(),
                " --check --input input_ids=", (model.folder / "input_ids.npy").string(),
                " --input labels=", (model.folder / "labels.npy").string()));
  EXPECT_EQ(done.code, 0) << done.output;
  EXPECT_NE(done.output.find("agrees with one device"), std::string::npos) << done.output;
}

struct Mistake {
  const char* name;
  std::string line;
  std::string says;
};

TEST(Mistakes, AreNamedAndExitWithTwo) {
  const ModelCase model("gpt2_tiny");
  const Scratch scratch;
  const std::string plan = (scratch / "p.plan").string();
  const std::string ids = (model.folder / "input_ids.npy").string();
  ASSERT_EQ(
      shell(compile_line(model, "--train --bind batch=8,sequence=16 --grid data=2 -o " + plan))
          .code,
      0);
  const std::string run = tool("tessera-run") + " " + plan + " --quiet ";
  const std::string out = (scratch / "no.plan").string();
  const std::vector<Mistake> mistakes{
      {"unbound dimension", compile_line(model, "--train --bind batch=8 --grid data=2 -o " + out),
       "dimension 'sequence' is not bound"},
      {"unused binding",
       compile_line(model, "--train --bind batch=8,sequence=16,heads=2 --grid data=2 -o " + out),
       "'heads'"},
      {"bad grid",
       compile_line(model, "--train --bind batch=8,sequence=16 --grid data=0 -o " + out),
       "axis data has size '0'"},
      {"unknown axis",
       compile_line(model, "--train --bind batch=8,sequence=16 --grid w=2 -o " + out),
       "axis w has no role"},
      {"no mode", compile_line(model, "--bind batch=8,sequence=16 --grid data=2 -o " + out),
       "choose one of --train and --infer"},
      {"unknown logits",
       compile_line(model,
                    "--train --logits nope --bind batch=8,sequence=16 --grid data=2 -o " + out),
       "no output \"nope\""},
      {"unknown optimizer",
       compile_line(model,
                    "--train --optimizer adam2 --bind batch=8,sequence=16 --grid data=2 -o " + out),
       "unknown optimizer 'adam2'"},
      {"no model", tool("tessera") + " compile /nonexistent.onnx --train --grid data=1 -o " + out,
       "cannot open the file"},
      {"not a model", tool("tessera") + " compile " + ids + " --train --grid data=1 -o " + out,
       "is not an ONNX model"},
      {"missing input", run + "--input labels=" + ids, "input \"input_ids\""},
      {"labels out of range",
       run + "--input input_ids=" + ids + " --input labels=" + (scratch / "bad.npy").string(),
       "step 0: error: input \"labels\" has the value 96"},
      {"another shape",
       run + "--input labels=" + ids +
           " --input input_ids=" + (model.folder.parent_path() / "gpt2_odd/input_ids.npy").string(),
       "the plan needs"},
      {"no plan", tool("tessera-run") + " /nonexistent.plan", "is not a plan"},
      {"dumps under a file",
       compile_line(model, "--train --bind batch=8,sequence=16 --grid data=2 --dump-dir " + ids +
                               "/d -o " + out),
       "ot a directory"},
      {"outputs of a training plan", run + "--output logits=l.npy", "--output: error"},
      {"checkpoints nowhere", run + "--checkpoint-every 2", "needs --checkpoint"},
      {"a log in no folder", run + "--log " + (scratch / "no/log").string(), "does not exist"},
      {"a trace that is a folder", run + "--trace " + (scratch / "").string(), "is a folder"},
      {"too many ranks",
       compile_line(model, "--train --bind batch=8,sequence=16 --grid data=4096 -o " +
                               (scratch / "many").string()) +
           " >/dev/null && " + tool("tessera-run") + " " + (scratch / "many").string(),
       "has 4096 ranks"},
  };
  Tensor bad = read_npy(model.folder / "labels.npy");
  bad.mutable_view<std::int64_t>()[5] = 96;
  write_npy(scratch / "bad.npy", bad);
  for (const Mistake& mistake : mistakes) {
    const Finished done = shell(mistake.line);
    EXPECT_EQ(done.code, 2) << mistake.name << ": " << done.output;
    EXPECT_NE(done.output.find(mistake.says), std::string::npos)
        << mistake.name << ": " << done.output;
    EXPECT_FALSE(fs::exists(out)) << mistake.name;
  }
}

// Two tables are read with the same ids: the smaller one, of 5 rows, bounds them. Ids that are
// computed are checked where they are used.
TEST(Mistakes, IdsOutOfRangeAreRefused) {
  for (const char* name : {"ids_of_two_tables", "ids_through_casts", "ids_of_a_sum"}) {
    const Scratch scratch;
    CompileFlags flags;
    flags.model = data(str("cases/", name)) / "model.onnx";
    flags.grid = "y=2,x=2";
    flags.output = scratch / "plan";
    flags.quiet = flags.infer = true;
    compile_model(flags);
    Tensor ids(DType::I64, {2, 2});
    ids.mutable_view<std::int64_t>()[3] = 6;
    write_npy(scratch / "ids.npy", ids);
    const Finished done = shell(str(tool("tessera-run"), " ", (scratch / "plan").string(),
                                    " --input ids=", (scratch / "ids.npy").string()));
    EXPECT_EQ(done.code, 2) << done.output;
    EXPECT_NE(done.output.find("6"), std::string::npos) << done.output;
  }
}

TEST(Mistakes, DamagedPlansAndMissingWeightsAreRefused) {
  const ModelCase model("gpt2_dynamo");
  const Scratch scratch;
  fs::create_directories(scratch / "m");
  fs::copy(model.folder, scratch / "m");
  CompileFlags flags = model.training("data=2", scratch / "plan");
  flags.model = scratch / "m/model.onnx";
  compile_model(flags);
  SessionOptions session = model.session(scratch / "plan", true);
  ASSERT_EQ(run(session), 0);
  fs::path weights;
  for (const auto& entry : fs::directory_iterator(scratch / "m")) {
    if (entry.path().extension() == ".data") weights = entry.path();
  }
  ASSERT_FALSE(weights.empty());
  std::string bytes = read_text(weights);
  bytes[1000] = static_cast<char>(bytes[1000] ^ 1);
  write_text(weights, bytes);
  EXPECT_EQ(run(session), 2);  // another content than the plan was compiled for
  fs::remove(weights);
  EXPECT_EQ(run(session), 2);
  std::string text = read_text(scratch / "plan/plan.txt");
  text.replace(text.find("einsum"), 6, "einsun");
  write_text(scratch / "plan/plan.txt", text);
  EXPECT_THROW(read_plan(scratch / "plan"), CompileError);
}

TEST(Mistakes, AJobOfAnotherSizeIsRefused) {
  if (!has_mpi()) GTEST_SKIP() << "this build has no MPI";
  const ModelCase model("gpt2_tiny");
  const Scratch scratch;
  compile_model(model.training("data=2", scratch / "plan"));
  const Finished done =
      shell(str("timeout -k 5 60 mpirun --allow-run-as-root --oversubscribe -n 3 ",
                tool("tessera-run"), " ", (scratch / "plan").string()));
  EXPECT_NE(done.code, 0);
  EXPECT_NE(done.output.find("needs 2 ranks, the job has 3"), std::string::npos) << done.output;
}

}  // namespace
}  // namespace tessera::test
