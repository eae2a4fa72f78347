#include "tools/tessera/compile.h"

#include <algorithm>
#include <charconv>
#include <iostream>
#include <optional>
#include <utility>

#include "codegen/emit_plan.h"
#include "codegen/predict_plan.h"
#include "frontend/import_onnx.h"
#include "ir/base/diag.h"
#include "ir/base/text.h"
#include "ir/verify.h"
#include "passes/pass_manager.h"
#include "tools/tessera/choose_grid.h"

namespace tessera {
namespace {

std::int64_t parse_size(const std::string& text, const std::string& item) {
  std::int64_t value = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  if (result.ec != std::errc() || result.ptr != text.data() + text.size() || value < 0) {
    throw CompileError("--bind", str("'", text, "' in '", item, "' is not a size"),
                       {"write --bind batch=8,sequence=16 or --bind input_ids=8x16"});
  }
  return value;
}

// batch=8 binds a dimension, input_ids=8x16 a whole input.
void parse_bindings(const std::vector<std::string>& flags, ImportOptions& options) {
  for (const std::string& flag : flags) {
    for (const std::string& item : split(flag, ',')) {
      const std::size_t equals = item.rfind('=');
      if (equals == std::string::npos || equals == 0)
        throw CompileError("--bind", str("expected NAME=SIZE, found '", item, "'"));
      const std::string key = item.substr(0, equals);
      const std::vector<std::string> sizes = split(item.substr(equals + 1), 'x');
      if (sizes.size() == 1) {
        options.bindings[key] = parse_size(sizes[0], item);
      } else {
        for (const std::string& size : sizes)
          options.input_shapes[key].push_back(parse_size(size, item));
      }
    }
  }
}

// With micro-batches the body runs on ceil(batch / N) samples: every input's leading dimension must
// be the batch.
void shrink_batch(std::int64_t count, ImportOptions& options, std::int64_t& batch) {
  if (count == 1) return;
  const ImportResult probe = import_onnx(options);
  const Func& forward = *probe.module.find("forward");
  for (const Arg& arg : forward.args()) {
    if (arg.kind != ArgKind::Input) continue;
    Shape shape = arg.value->type.shape;
    if (shape.empty())
      throw CompileError("--micro-batches",
                         str("input %", arg.value->name, " has no batch dimension"));
    if (batch < 0) batch = shape[0];
    if (shape[0] != batch)
      throw CompileError("--micro-batches", str("input %", arg.value->name, " has ", shape[0],
                                                " samples, another input ", batch));
    shape[0] = (batch + count - 1) / count;
    options.input_shapes[probe.module.notes.at("input." + arg.value->name)] = shape;
  }
}

// The model after the passes that do not depend on the grid.
struct Logical {
  ImportResult imported;
  PassContext context;
  PassManager manager;
};

// Where the time of a compilation goes, by stage, in order of first use.
class Timings {
 public:
  template <class Run>
  auto time(const std::string& stage, Run run) {
    const auto start = std::chrono::steady_clock::now();
    auto result = run();
    add(stage, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    return result;
  }
  void add(const std::string& stage, double seconds) {
    const auto found = std::ranges::find(stages_, stage, &std::pair<std::string, double>::first);
    if (found != stages_.end()) {
      found->second += seconds;
    } else {
      stages_.emplace_back(stage, seconds);
    }
  }
  void print() const {
    for (const auto& [stage, seconds] : stages_)
      std::printf("time %-24s %8.3f s\n", stage.c_str(), seconds);
  }

 private:
  std::vector<std::pair<std::string, double>> stages_;
};

Logical import_and_prepare(const CompileFlags& flags, std::int64_t micro_batches, const Grid& grid,
                           Timings& timings) {
  ImportOptions import;
  import.model = flags.model;
  import.freeze = flags.freeze;
  import.trainable = flags.trainable;
  import.retie = flags.retie;
  parse_bindings(flags.bind, import);
  Logical logical{{}, {flags.options, {}}, PassManager({flags.dump_dir, true})};
  logical.context.options.train = flags.train;
  logical.context.options.micro_batches = micro_batches;
  logical.context.options.optimizer = parse_optimizer(flags.optimizer);
  std::int64_t batch = -1;
  if (flags.train) shrink_batch(micro_batches, import, batch);
  logical.imported = timings.time("import", [&] { return import_onnx(import); });
  Module& module = logical.imported.module;
  module.grid = grid;
  if (batch >= 0) module.notes["batch"] = str(batch);
  verify_or_throw(module, "after import");
  if (!flags.dump_dir.empty()) std::filesystem::create_directories(flags.dump_dir);
  logical.manager.dump(module, "import_onnx");
  logical.manager.run(module, logical_passes(flags.train), logical.context);
  return logical;
}

struct Compiled {
  Logical logical;
  Plan plan;
};

Compiled finish(Logical logical, const CompileFlags& flags, Timings& timings) {
  logical.manager.run(logical.imported.module, sharded_passes(), logical.context);
  Plan plan = timings.time("emit_plan", [&] {
    return emit_plan(logical.imported.module,
                     {flags.model.parent_path(), flags.output, "x86-64-v3"});
  });
  for (const PassRun& run : logical.manager.runs()) timings.add(run.name, run.seconds);
  return {std::move(logical), std::move(plan)};
}

bool can_shrink(const CompileFlags& flags, const Module& module) {
  if (!flags.train || !flags.any_micro_batches) return false;
  const Func& body = *module.find("micro");
  return std::ranges::any_of(body.args(), [](const Arg& arg) {
    return arg.kind == ArgKind::Input && arg.value->type.rank() > 0 && arg.value->type.shape[0] > 1;
  });
}

// Compiles for the best grids, one after the other, until a plan holds what the estimate promised;
// with more and more micro-batches as long as no grid fits.
Compiled choose_and_compile(const CompileFlags& flags, const Machine& machine, Timings& timings) {
  constexpr std::size_t kTries = 8;
  const Grid one({{"data", 1}, {"z", 1}, {"y", 1}, {"x", 1}});
  for (std::int64_t count = flags.options.micro_batches;; count *= 2) {
    std::optional<Logical> first = import_and_prepare(flags, count, one, timings);
    std::vector<GridCandidate> candidates = timings.time(
        "search", [&] { return grid_candidates(first->imported.module, flags, machine); });
    const bool more = can_shrink(flags, first->imported.module);
    for (std::size_t i = 0; i < std::min(kTries, candidates.size()) && candidates[i].fits; ++i) {
      Logical logical = first ? *std::exchange(first, std::nullopt)
                              : import_and_prepare(flags, count, one, timings);
      logical.imported.module.grid = candidates[i].grid;
      logical.imported.module.notes["machine"] = flags.machine;
      Compiled compiled = finish(std::move(logical), flags, timings);
      if (predict(compiled.plan, machine).memory_total <= machine.device.memory_bytes) {
        std::rotate(candidates.begin(), candidates.begin() + static_cast<std::ptrdiff_t>(i),
                    candidates.begin() + static_cast<std::ptrdiff_t>(i) + 1);
        if (!flags.quiet) print_candidates(candidates, flags, machine);
        return compiled;
      }
    }
    if (!more) refuse_to_fit(candidates, machine);
  }
}

void report(const CompileFlags& flags, const Logical& logical, const Plan& plan) {
  if (flags.remarks) {
    for (const std::string& remark : logical.imported.remarks)
      std::cout << "remark: " << remark << "\n";
    for (const std::string& remark : logical.context.remarks)
      std::cout << "remark: " << remark << "\n";
  }
  if (flags.quiet) return;
  for (const std::string& file : logical.imported.absent) {
    std::cerr << "warning: the weights in " << (flags.model.parent_path() / file).string()
              << " are absent: the plan can be studied, but tessera-run needs them"
              << " (or --random-weights SEED)\n";
  }
  std::size_t steps = 0;
  for (const PlanFunc& func : plan.funcs) steps += func.steps.size();
  std::cout << flags.output.string() << ": grid " << plan.grid.text() << ", "
            << (plan.micro_batches > 1 ? str(plan.micro_batches, " micro-batches, ") : "") << steps
            << " steps, " << plan.comms.size() << " communicators, " << plan.arena_bytes
            << " bytes a rank\n";
}

}  // namespace

void compile_model(const CompileFlags& flags) {
  if (flags.train == flags.infer) throw CompileError("", "choose one of --train and --infer");
  const bool searches = searches_grid(flags);
  if (searches && flags.machine.empty())
    throw CompileError(
        "--machine", "say for which machine the grid is to be chosen",
        {"`tessera machine` lists presets; or name the grid: --grid data=2,z=1,y=2,x=2"});
  Timings timings;
  const Machine machine = load_machine(flags.machine.empty() ? "localhost" : flags.machine);
  const Compiled compiled =
      searches ? choose_and_compile(flags, machine, timings)
               : finish(import_and_prepare(flags, flags.options.micro_batches,
                                           Grid::parse(flags.grid, "--grid"), timings),
                        flags, timings);
  timings.time("write_plan", [&] {
    write_plan(compiled.plan, flags.output, compiled.logical.imported.inline_weights);
    return true;
  });
  if (flags.timings) timings.print();
  report(flags, compiled.logical, compiled.plan);
}

}  // namespace tessera
