// tessera: the compiler's command line.
#include <malloc.h>

#include <iostream>

#include "frontend/import_onnx.h"
#include "frontend/zoo.h"
#include "ir/base/diag.h"
#include "ir/base/text.h"
#include "passes/cost/machine.h"
#include "passes/search/strategies.h"
#include "tools/guarded.h"
#include "tools/layout_options.h"
#include "tools/tessera/calibrate.h"
#include "tools/tessera/compile.h"
#include "tools/tessera/explain.h"
#include "tools/tessera/verify.h"

namespace tessera {
namespace {

void add_compile(CLI::App& app, CompileFlags& f) {
  app.add_option("model", f.model, "The ONNX model")->required();
  app.add_flag("--train", f.train, "Compile a training step");
  app.add_flag("--infer", f.infer, "Compile the forward pass");
  app.add_option("--bind", f.bind,
                 "Sizes of symbolic dimensions or inputs: batch=8,sequence=16 or input_ids=8x16");
  app.add_option("--grid", f.grid,
                 "The device grid: data=2,z=1,y=2,x=2; sizes that are * are searched for");
  app.add_option(
      "--machine", f.machine,
      "The machine that the search plans for: a preset or a machine file (default: localhost)");
  app.add_option("--devices", f.devices, "How many devices the grid is chosen for")
      ->check(CLI::Range(1, 1 << 20));
  app.add_option("--strategy", f.strategy,
                 join(strategies(), ", ", [](const Strategy& s) { return s.name; }));
  app.add_option("--max-memory", f.max_memory,
                 "Bytes of a device that the search may use (default: the machine file's)")
      ->transform(CLI::AsSizeValue(false))
      ->check(CLI::PositiveNumber);
  app.add_option("--loss", f.options.loss, "cross_entropy, or output:NAME for a scalar output");
  app.add_option("--logits", f.options.logits, "The output that holds the logits");
  app.add_option("--labels", f.options.labels, "Name of the label input");
  app.add_option("--optimizer", f.optimizer,
                 "sgd, adam or adamw, with settings: "
                 "adamw:lr=1e-3,beta1=0.9,beta2=0.95,eps=1e-8,weight_decay=0.1");
  app.add_option("--clip-norm", f.options.clip_norm, "Clip gradients by their global norm");
  f.any_micro_batches = true;
  app.add_option_function<std::int64_t>(
         "--micro-batches",
         [&f](std::int64_t count) {
           f.options.micro_batches = count;
           f.any_micro_batches = false;
         },
         "Micro-batches a step (default: 1, or as many as make a grid fit)")
      ->check(CLI::PositiveNumber);
  add_layout_options(app, f.options);
  app.add_option("--freeze", f.freeze, "Parameters to keep fixed (regular expression)");
  app.add_option("--trainable", f.trainable, "Initializers to train (regular expression)");
  app.add_flag("--no-retie{false}", f.retie,
               "Keep a transposed copy of a lookup table as a parameter of its own");
  app.add_option("--dump-dir", f.dump_dir, "The module after each pass, as text");
  app.add_option("--dump-costs", f.dump_costs,
                 "The assignment problem of the chosen grid as JSON, for other solvers");
  app.add_flag("--remarks", f.remarks, "Print what the compiler decided");
  app.add_flag("--timings", f.timings, "Print where the compiler's time goes");
  app.add_option("-o,--output", f.output, "The plan's folder")->required();
}

// What is given on the command line is not searched for.
void note_fixed(const CLI::App& app, CompileFlags& f) {
  if (app.count("--recompute") > 0) f.fixed.recompute = f.options.recompute;
  if (app.count("--regather") > 0) f.fixed.regather = f.options.regather;
  if (app.count("--zero1") > 0) f.fixed.zero1 = f.options.zero1;
  if (app.count("--scatter-tokens") > 0) f.fixed.scatter_tokens = f.options.scatter_tokens;
  if (app.count("--refine") > 0) f.fixed.refine = f.options.refine == Refine::On;
  if (app.count("--scatter-features") > 0) f.fixed.scatter_features = f.options.scatter_features;
}

void add_zoo(CLI::App& app, ZooModel& m, std::string& dtype, std::filesystem::path& output) {
  app.add_option("family", m.family, "gpt or llama")->required();
  app.add_option("--layers", m.layers, "Transformer blocks");
  app.add_option("--hidden", m.hidden, "Size of the residual stream");
  app.add_option("--heads", m.heads, "Query heads");
  app.add_option("--kv-heads", m.kv_heads, "Key and value heads (llama)");
  app.add_option("--mlp", m.mlp, "Hidden size of the MLP");
  app.add_option("--vocab", m.vocabulary, "Vocabulary");
  app.add_option("--sequence", m.sequence,
                 "Most tokens of a sample (bind the dimension 'sequence' to a size up to it)");
  app.add_option("--dtype", dtype, "f32, bf16 or f16")
      ->check(CLI::IsMember({"f32", "bf16", "f16"}));
  app.add_option("-o,--output", output, "The ONNX file")->required();
}

void print_machine(const std::string& name) {
  for (const Preset& preset : machine_presets()) {
    if (name.empty()) std::cout << preset.name << "\n";
    if (preset.name == name) std::cout << preset.json;
  }
  if (!name.empty()) load_machine(name);  // says which presets there are
}

void add_explain(CLI::App& app, ExplainFlags& f) {
  app.add_option("plan", f.plan, "The plan's folder")->required();
  app.add_option("--machine", f.machine, "A preset or a machine file (default: the plan's)");
  app.add_flag("--json", f.json, "For programs");
  app.add_option("--why", f.why, "Why a value or collective is there, and what it costs");
  app.add_option("--diff", f.diff, "Another plan: what differs, and what it is worth");
  app.add_option("--html", f.html, "A page with timeline, memory curve, layouts and candidates");
  app.add_option("--trace", f.trace, "The expected timeline, as a Chrome/Perfetto trace");
}

int run(int argc, char** argv) {
  CLI::App app("Tessera compiles ONNX transformers into plans for many devices.", "tessera");
  CompileFlags flags;
  bool list_ops = false;
  app.add_flag("--list-ops", list_ops, "List the ONNX ops that can be imported");
  CLI::App* compile_command = app.add_subcommand("compile", "Compile a model into a plan");
  add_compile(*compile_command, flags);
  ExplainFlags explain_flags;
  CLI::App* explain_command =
      app.add_subcommand("explain", "What a plan is expected to take, and where it goes");
  add_explain(*explain_command, explain_flags);
  std::filesystem::path verified;
  CLI::App* verify_command = app.add_subcommand(
      "verify", "Check a plan: no races, no buffer reused too early, one order of collectives");
  verify_command->add_option("plan", verified, "The plan's folder")->required();
  CalibrateFlags calibration;
  CLI::App* calibrate_command =
      app.add_subcommand("calibrate", "Measure this machine and write a machine file");
  calibrate_command->add_option("--ranks", calibration.ranks, "Local ranks that share it")
      ->check(CLI::Range(1, 512));
  calibrate_command->add_option("-o,--output", calibration.output, "The machine file")->required();
  ZooModel zoo;
  std::string zoo_dtype = "f32";
  std::filesystem::path zoo_output;
  CLI::App* zoo_command =
      app.add_subcommand("zoo", "Write a model's graph without weights, to plan with");
  add_zoo(*zoo_command, zoo, zoo_dtype, zoo_output);
  std::string machine;
  CLI::App* machine_command = app.add_subcommand("machine", "Print a machine file to start from");
  machine_command->add_option("name", machine, "A preset; without one, all of them are listed");
  app.require_subcommand(0, 1);
  if (const auto code = parse_command_line(app, argc, argv)) return *code;
  if (list_ops) {
    for (const std::string& op : supported_ops()) std::cout << op << "\n";
    return 0;
  }
  if (compile_command->parsed()) {
    note_fixed(*compile_command, flags);
    compile_model(flags);
    return 0;
  }
  if (explain_command->parsed()) {
    explain(explain_flags);
    return 0;
  }
  if (verify_command->parsed()) {
    verify_plan(verified);
    return 0;
  }
  if (calibrate_command->parsed()) {
    calibrate(calibration);
    return 0;
  }
  if (zoo_command->parsed()) {
    zoo.dtype = *dtype_named(zoo_dtype);
    write_zoo_model(zoo, zoo_output);
    return 0;
  }
  if (machine_command->parsed()) {
    print_machine(machine);
    return 0;
  }
  std::cout << app.help();
  return 0;
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  // Modules are many small objects that come and go: what is free stays with the process (for
  // builds without mimalloc).
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  mallopt(M_TOP_PAD, 1 << 26);
  mallopt(M_MXFAST, 0);
  return tessera::guarded([&] { return tessera::run(argc, argv); });
}
