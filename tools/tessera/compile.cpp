#include "tools/tessera/compile.h"

#include <charconv>
#include <iostream>

#include "codegen/emit_plan.h"
#include "frontend/import_onnx.h"
#include "ir/base/diag.h"
#include "ir/base/text.h"
#include "ir/verify.h"
#include "passes/pass_manager.h"

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
void shrink_batch(const CompileFlags& flags, ImportOptions& options, std::int64_t& batch) {
  const std::int64_t count = flags.options.micro_batches;
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

}  // namespace

void compile_model(const CompileFlags& flags) {
  if (flags.train == flags.infer) throw CompileError("", "choose one of --train and --infer");
  ImportOptions import;
  import.model = flags.model;
  import.freeze = flags.freeze;
  import.trainable = flags.trainable;
  import.retie = flags.retie;
  parse_bindings(flags.bind, import);
  const Grid grid = Grid::parse(flags.grid, "--grid");
  PassContext context{flags.options, {}};
  context.options.train = flags.train;
  context.options.optimizer = parse_optimizer(flags.optimizer);
  std::int64_t batch = -1;
  if (flags.train) shrink_batch(flags, import, batch);

  ImportResult imported = import_onnx(import);
  Module& module = imported.module;
  module.grid = grid;
  if (batch >= 0) module.notes["batch"] = str(batch);
  verify_or_throw(module, "after import");
  if (!flags.dump_dir.empty()) std::filesystem::create_directories(flags.dump_dir);
  PassManager manager({flags.dump_dir, true});
  manager.dump(module, "import_onnx");
  manager.run(module, flags.train ? training_pipeline() : inference_pipeline(), context);

  const Plan plan = emit_plan(module, {flags.model.parent_path(), flags.output, "x86-64-v3"});
  write_plan(plan, flags.output, imported.inline_weights);
  if (flags.remarks) {
    for (const std::string& remark : imported.remarks) std::cout << "remark: " << remark << "\n";
    for (const std::string& remark : context.remarks) std::cout << "remark: " << remark << "\n";
  }
  for (const std::string& file : imported.absent) {
    std::cerr << "warning: the weights in " << (flags.model.parent_path() / file).string()
              << " are absent: the plan can be studied, but tessera-run needs them"
              << " (or --random-weights SEED)\n";
  }
  if (flags.quiet) return;
  std::size_t steps = 0;
  for (const PlanFunc& func : plan.funcs) steps += func.steps.size();
  std::cout << flags.output.string() << ": grid " << plan.grid.text() << ", " << steps << " steps, "
            << plan.comms.size() << " communicators, " << plan.arena_bytes << " bytes a rank\n";
}

}  // namespace tessera
