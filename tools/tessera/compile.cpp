#include "tools/tessera/compile.h"

#include <charconv>
#include <iostream>

#include "codegen/emit_plan.h"
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

Logical import_and_prepare(const CompileFlags& flags, std::int64_t micro_batches,
                           const Grid& grid) {
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
  logical.imported = import_onnx(import);
  Module& module = logical.imported.module;
  module.grid = grid;
  if (batch >= 0) module.notes["batch"] = str(batch);
  verify_or_throw(module, "after import");
  if (!flags.dump_dir.empty()) std::filesystem::create_directories(flags.dump_dir);
  logical.manager.dump(module, "import_onnx");
  logical.manager.run(module, logical_passes(flags.train), logical.context);
  return logical;
}

// More and more micro-batches, until some grid fits.
Logical choose(const CompileFlags& flags, const Machine& machine) {
  const Grid one({{"data", 1}, {"z", 1}, {"y", 1}, {"x", 1}});
  std::int64_t count = flags.options.micro_batches;
  for (;;) {
    Logical logical = import_and_prepare(flags, count, one);
    Module& module = logical.imported.module;
    const std::vector<GridCandidate> candidates = grid_candidates(module, flags, machine);
    const GridCandidate& best = candidates[0];
    if (best.fits) {
      if (!flags.quiet) print_candidates(candidates, flags, machine);
      module.grid = best.grid;
      module.notes["machine"] = flags.machine;
      return logical;
    }
    const Value* first = module.find(flags.train ? "micro" : "forward")->args()[0].value.get();
    const bool more = flags.train && flags.any_micro_batches && first->type.rank() > 0 &&
                      first->type.shape[0] > 1;
    if (!more) refuse_to_fit(best, machine);
    count *= 2;
  }
}

void report(const CompileFlags& flags, const Logical& logical, const Plan& plan) {
  if (flags.remarks) {
    for (const std::string& remark : logical.imported.remarks)
      std::cout << "remark: " << remark << "\n";
    for (const std::string& remark : logical.context.remarks)
      std::cout << "remark: " << remark << "\n";
  }
  for (const std::string& file : logical.imported.absent) {
    std::cerr << "warning: the weights in " << (flags.model.parent_path() / file).string()
              << " are absent: the plan can be studied, but tessera-run needs them"
              << " (or --random-weights SEED)\n";
  }
  if (flags.quiet) return;
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
  const Machine machine = load_machine(flags.machine.empty() ? "localhost" : flags.machine);
  Logical logical = searches ? choose(flags, machine)
                             : import_and_prepare(flags, flags.options.micro_batches,
                                                  Grid::parse(flags.grid, "--grid"));
  Module& module = logical.imported.module;
  logical.manager.run(module, sharded_passes(), logical.context);
  const Plan plan = emit_plan(module, {flags.model.parent_path(), flags.output, "x86-64-v3"});
  write_plan(plan, flags.output, logical.imported.inline_weights);
  report(flags, logical, plan);
}

}  // namespace tessera
