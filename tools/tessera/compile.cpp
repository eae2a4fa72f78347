#include "tools/tessera/compile.h"

#include <iostream>

#include "ir/base/diag.h"
#include "ir/base/file.h"
#include "ir/base/text.h"
#include "tools/tessera/choose_grid.h"
#include "tools/tessera/choose_plan.h"

namespace tessera {
namespace {

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
  const std::string machine_name = flags.machine.empty() ? "localhost" : flags.machine;
  Timings timings;
  const Machine machine = load_machine(machine_name);
  const auto named_grid = [&] {
    const Grid grid = Grid::parse(flags.grid, "--grid");
    return finish(import_and_prepare(flags, grid, timings), flags, timings);
  };
  const ChosenPlan chosen =
      searches_grid(flags) ? choose_plan(flags, machine, timings) : ChosenPlan{named_grid(), ""};
  const Compiled& compiled = chosen.compiled;
  timings.time("write_plan", [&] {
    write_plan(compiled.plan, flags.output, compiled.logical.imported.inline_weights);
    if (!chosen.search_json.empty()) {
      write_atomically(flags.output / "search.json",
                       [&](std::ostream& out) { out << chosen.search_json; });
    }
    return true;
  });
  if (flags.timings) timings.print();
  report(flags, compiled.logical, compiled.plan);
}

}  // namespace tessera
