// tessera-run: runs a plan, with ranks as threads of this process, or one MPI process each.
#include <iostream>

#include "ir/base/diag.h"
#include "ir/base/text.h"
#include "runtime/check_plan.h"
#include "runtime/cpu/threads.h"
#include "runtime/session.h"
#include "tools/guarded.h"
#include "tools/tessera-run/check.h"
#include "tools/tessera-run/launch.h"

namespace tessera {
namespace {

// NAME=FILE
std::map<std::string, std::filesystem::path> named_files(const std::vector<std::string>& items,
                                                         const char* flag) {
  std::map<std::string, std::filesystem::path> files;
  for (const std::string& item : items) {
    const std::size_t equals = item.find('=');
    if (equals == std::string::npos || equals == 0)
      throw CompileError(flag, str("expected NAME=FILE, found ", in_quotes(item)));
    files[item.substr(0, equals)] = item.substr(equals + 1);
  }
  return files;
}

struct Flags {
  SessionOptions session;
  std::vector<std::string> inputs, outputs;
  std::string ranks;
  double timeout = 300;
  bool list = false, check = false;
  std::uint64_t random_seed = 0;
};

void add_flags(CLI::App& app, Flags& f) {
  SessionOptions& s = f.session;
  app.add_option("plan", s.plan_folder, "The plan's folder")->required();
  app.add_option("--ranks", f.ranks,
                 "local (threads of this process, the default) or mpi:N (starts mpirun)");
  app.add_option("--steps", s.steps, "Training steps")->check(CLI::NonNegativeNumber);
  app.add_option("--input", f.inputs, "NAME=FILE.npy: the same input every step");
  app.add_option("--data", s.batches.data, "Token stream (.npy or .bin) to sample windows from");
  app.add_option("--data-dtype", s.batches.data_dtype, "Element type of .bin files: u16, i32, i64");
  app.add_option("--tokens", s.batches.tokens,
                 "Input that takes the tokens (default: the only integer input)");
  app.add_option("--seed", s.batches.seed, "Seed of the data order");
  app.add_option("--output", f.outputs, "NAME=FILE.npy: where an output goes (inference)");
  app.add_option("--lr", s.lr, "Learning rate, or a file with one rate a line");
  app.add_option("--dump-gradients", s.dump_gradients,
                 "Raw gradients of the first step, as safetensors");
  app.add_option("--log", s.log, "One JSON object a step");
  app.add_option("--trace", s.trace, "Chrome/Perfetto trace");
  app.add_option("--save-weights", s.save_weights, "Weights after the last step, as safetensors");
  app.add_option("--checkpoint", s.checkpoint, "Folder for checkpoints");
  app.add_option("--checkpoint-every", s.checkpoint_every, "Steps between checkpoints");
  app.add_option("--resume", s.resume, "Folder of checkpoints to go on from");
  app.add_option("--random-weights", f.random_seed,
                 "Random weights of this seed instead of the files");
  app.add_flag("--no-verify-weights{false}", s.verify_weights, "Do not check the weights' hashes");
  app.add_option("--timeout", f.timeout, "Seconds that a rank waits for others");
  app.add_option_function<std::vector<std::string>>(
      "--link",
      [&s](const std::vector<std::string>& links) {
        for (const std::string& link : links) parse_link(link, s.execution.links);
      },
      "alpha=20us,beta=1GB/s: what transfers between local ranks take at least; z:alpha=... for "
      "one "
      "axis");
  app.add_option("--random-delays", s.execution.delay_seed,
                 "Pauses of random length, by this seed, before every piece of work");
  app.add_flag("--quiet", s.quiet, "Print nothing but errors");
  app.add_flag("--check", f.check, "Compare the first step with the same program on one device");
  app.add_flag("--list", f.list, "List the plan's inputs and outputs and stop");
}

void list_plan(const Plan& plan) {
  std::cout << "grid " << plan.grid.text() << " (" << plan.grid.ranks() << " ranks), arena "
            << plan.arena_bytes << " bytes a rank\n";
  for (const PlanFunc& func : plan.funcs) {
    for (const PlanArg& arg : func.args) {
      const PlanValue& value = func.values[static_cast<std::size_t>(arg.value)];
      if (arg.role == ArgRole::Input)
        std::cout << "@" << func.name << " input " << value.name << " "
                  << to_text(value.type, plan.grid) << "\n";
    }
    for (const PlanResult& result : func.results) {
      if (!result.updates)
        std::cout << "@" << func.name << " output " << result.name << " "
                  << to_text(func.values[static_cast<std::size_t>(result.value)].type, plan.grid)
                  << "\n";
    }
  }
}

int run(int argc, char** argv) {
  Flags flags;
  CLI::App app("Runs a Tessera plan.", "tessera-run");
  add_flags(app, flags);
  if (const auto code = parse_command_line(app, argc, argv)) return *code;
  if (const std::string missing = cpu::missing_instructions(); !missing.empty())
    throw CompileError("", str("this processor lacks ", missing));
  if (app.count("--random-weights") > 0) flags.session.random_weights = flags.random_seed;
  flags.session.batches.inputs = named_files(flags.inputs, "--input");
  flags.session.outputs = named_files(flags.outputs, "--output");
  if (flags.ranks.starts_with("mpi")) return exec_mpirun(flags.ranks, argc, argv);
  if (!flags.ranks.empty() && flags.ranks != "local")
    throw CompileError("--ranks", str("expected local or mpi:N, found ", in_quotes(flags.ranks)));
  const Plan plan = read_plan(flags.session.plan_folder);
  if (std::vector<std::string> found = check_plan(plan); !found.empty())
    throw CompileError(flags.session.plan_folder.string(), str("the plan is not sound: ", found[0]),
                       {"`tessera verify` prints all findings"});
  if (flags.list) {
    list_plan(plan);
    return 0;
  }
  check_options(plan, flags.session);
  const Timeout timeout(flags.timeout);
  if (flags.check) return check_plan(plan, flags.session, timeout);
  return launched_by_mpi() && flags.ranks != "local" ? run_mpi(plan, flags.session, timeout)
                                                     : run_local(plan, flags.session, timeout);
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  return tessera::guarded([&] { return tessera::run(argc, argv); });
}
