#include "tools/tessera/compile.h"

#include <iostream>

#include "ir/base/diag.h"
#include "ir/base/file.h"
#include "ir/base/sha256.h"
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

// Beside the plan that it belongs to; what an earlier compilation left there goes.
void write_search(nlohmann::json search, const std::filesystem::path& folder) {
  std::filesystem::remove(folder / "search.json");
  if (search.is_null()) return;
  search["plan_sha256"] = sha256(read_text(folder / "plan.txt"));
  write_atomically(folder / "search.json",
                   [&](std::ostream& out) { out << search.dump(1) << "\n"; });
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
      searches_grid(flags) ? choose_plan(flags, machine, timings) : ChosenPlan{named_grid(), {}};
  const Compiled& compiled = chosen.compiled;
  timings.time("write_plan", [&] {
    write_plan(compiled.plan, flags.output, compiled.logical.imported.inline_weights);
    write_search(chosen.search, flags.output);
    return true;
  });
  if (flags.timings) timings.print();
  report(flags, compiled.logical, compiled.plan);
}

}  // namespace tessera
