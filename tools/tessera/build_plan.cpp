#include "tools/tessera/build_plan.h"

#include <algorithm>
#include <charconv>

#include "ir/base/diag.h"
#include "ir/base/file.h"
#include "ir/base/text.h"
#include "ir/copy.h"
#include "ir/verify.h"
#include "passes/search/assignment.h"
#include "passes/search/choice.h"
#include "passes/sharded/layout.h"

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

// What --refine solves, on the grid at hand: nodes, terms, the layout's assignment and the best
// known.
void dump_costs(const Module& logical, const PassContext& context, const CompileFlags& flags) {
  Module module = copy_of(logical);
  PassContext layout{context.options, {}};
  PassManager({{}, false}).run(module, layout_passes(), layout);
  const AssignmentProblem problem =
      assignment_problem(module, load_machine(context.options.machine), context.options);
  write_text(flags.dump_costs, costs_json(problem, solve(problem), module.grid));
}

}  // namespace

Logical import_and_prepare(const CompileFlags& flags, const Grid& grid, Timings& timings) {
  ImportOptions import;
  import.model = flags.model;
  import.freeze = flags.freeze;
  import.trainable = flags.trainable;
  import.retie = flags.retie;
  parse_bindings(flags.bind, import);
  Logical logical{{}, {flags.options, {}}, PassManager({flags.dump_dir, true})};
  logical.context.options.train = flags.train;
  logical.context.options.optimizer = parse_optimizer(flags.optimizer);
  if (!flags.machine.empty()) logical.context.options.machine = flags.machine;
  if (flags.max_memory > 0) logical.context.options.memory_bytes = flags.max_memory;
  std::int64_t batch = -1;
  if (flags.train) shrink_batch(flags.options.micro_batches, import, batch);
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

std::vector<const Pass*> layout_passes() {
  std::vector<const Pass*> passes = sharded_passes();
  passes.erase(std::ranges::find(passes, find_pass("refine_loops")), passes.end());
  return passes;
}

Compiled finish(Logical logical, const CompileFlags& flags, Timings& timings) {
  Module& module = logical.imported.module;
  PassContext& context = logical.context;
  if (!flags.dump_costs.empty()) dump_costs(module, context, flags);
  if (!flags.machine.empty()) module.notes["machine"] = flags.machine;
  logical.manager.run(module, sharded_passes(), context);
  const std::string settings = settings_text(context.options, context.refined);
  if (!settings.empty()) module.notes["settings"] = settings;
  Plan plan = timings.time("emit_plan", [&] {
    return emit_plan(module, {flags.model.parent_path(), flags.output, "x86-64-v3"});
  });
  for (const PassRun& run : logical.manager.runs()) timings.add(run.name, run.seconds);
  return {std::move(logical), std::move(plan)};
}

}  // namespace tessera
