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
#include "ir/base/file.h"
#include "ir/base/text.h"
#include "ir/copy.h"
#include "ir/verify.h"
#include "passes/pass_manager.h"
#include "passes/search/assignment.h"
#include "passes/sharded/layout.h"
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

struct Compiled {
  Logical logical;
  Plan plan;
};

// What --refine solves, on the grid at hand: nodes, edges, the layout's assignment and the best
// known.
void dump_costs(const Module& logical, const PassContext& context, const CompileFlags& flags) {
  Module module = copy_of(logical);
  PassContext layout{context.options, {}};
  const std::vector<const Pass*> passes{find_pass("choose_shardings"),
                                        find_pass("propagate_shardings")};
  PassManager({{}, false}).run(module, passes, layout);
  const AssignmentProblem problem =
      assignment_problem(module, load_machine(context.options.machine), context.options.regather);
  write_text(flags.dump_costs, costs_json(problem, solve(problem), module.grid));
}

Compiled finish(Logical logical, const CompileFlags& flags, Timings& timings) {
  if (!flags.dump_costs.empty()) dump_costs(logical.imported.module, logical.context, flags);
  if (!flags.machine.empty()) logical.imported.module.notes["machine"] = flags.machine;
  std::string settings = options_text(settings_of(logical.context.options));
  if (logical.context.options.refine) settings += settings.empty() ? "refined" : ", refined";
  if (!settings.empty()) logical.imported.module.notes["settings"] = settings;
  logical.manager.run(logical.imported.module, sharded_passes(), logical.context);
  Plan plan = timings.time("emit_plan", [&] {
    return emit_plan(logical.imported.module,
                     {flags.model.parent_path(), flags.output, "x86-64-v3"});
  });
  for (const PassRun& run : logical.manager.runs()) timings.add(run.name, run.seconds);
  return {std::move(logical), std::move(plan)};
}

// The module before everything that a choice decides, for each number of micro-batches that was
// asked for; copied for each plan that is tried.
class Prepared {
 public:
  Prepared(const CompileFlags& flags, Timings& timings) : flags_(flags), timings_(timings) {
    Choice().apply(flags_.options);
    flags_.options.refine = false;
  }

  const Logical& at(std::int64_t micro_batches) {
    const auto known = by_count_.find(micro_batches);
    if (known != by_count_.end()) return known->second;
    CompileFlags flags = flags_;
    flags.options.micro_batches = micro_batches;
    const Grid one({{"data", 1}, {"z", 1}, {"y", 1}, {"x", 1}});
    return by_count_.emplace(micro_batches, import_and_prepare(flags, one, timings_)).first->second;
  }

  Compiled compile(const Choice& choice, const CompileFlags& flags) {
    const Logical& whole = at(choice.micro_batches);
    CompileFlags chosen = flags;
    choice.apply(chosen.options);
    Logical logical{{copy_of(whole.imported.module), {}, {}, {}},
                    {chosen.options, whole.context.remarks},
                    whole.manager};
    logical.imported.remarks = whole.imported.remarks;
    logical.imported.absent = whole.imported.absent;
    logical.imported.inline_weights = whole.imported.inline_weights;
    logical.context.options.train = flags.train;
    logical.context.options.optimizer = parse_optimizer(flags.optimizer);
    logical.imported.module.grid = choice.grid;
    logical.manager.run(logical.imported.module, std::vector{find_pass("recompute_activations")},
                        logical.context);
    return finish(std::move(logical), chosen, timings_);
  }

 private:
  CompileFlags flags_;
  Timings& timings_;
  std::map<std::int64_t, Logical> by_count_;
};

// Compiles the best candidates, one after the other, until a plan holds what the estimate promised;
// of those that are nearly as good, the one whose replay is fastest. It comes first in `result`
// then.
std::optional<Compiled> compile_best(SearchResult& result, Prepared& prepared, double memory,
                                     const CompileFlags& flags, const Machine& machine,
                                     Timings& timings) {
  constexpr std::size_t kTries = 6, kReplayed = 2;
  constexpr double kNearlyAsGood = 1.02;
  // Dumps are of one plan; of a large model a second plan takes a second or two more.
  constexpr std::size_t kLarge = 3000;
  const bool large = body_of(prepared.at(1).imported.module)->ops().size() > kLarge;
  const std::size_t most_replays = flags.dump_dir.empty() && !large ? kReplayed : 1;
  CompileFlags layouts = flags;
  layouts.options.refine = false;  // only the best is refined, and kept if its replay is faster
  layouts.dump_costs.clear();
  std::optional<Compiled> best;
  std::size_t best_at = 0, replayed = 0;
  double best_seconds = 0;
  std::vector<Candidate>& candidates = result.candidates;
  for (std::size_t i = 0; i < std::min(kTries, candidates.size()) && candidates[i].fits; ++i) {
    const bool late = best && candidates[i].seconds > kNearlyAsGood * candidates[best_at].seconds;
    if (late || replayed == most_replays) break;
    if (best) ++replayed;  // fits or not
    Compiled compiled = prepared.compile(candidates[i].choice, layouts);
    const Prediction replay =
        timings.time("replay", [&] { return predict(compiled.plan, machine); });
    candidates[i].memory = replay.memory_total;
    candidates[i].fits = replay.memory_total <= memory;
    if (!candidates[i].fits) continue;
    if (!best) ++replayed;
    if (best && replay.seconds >= best_seconds) continue;
    best = std::move(compiled);
    best_at = i;
    best_seconds = replay.seconds;
  }
  if (!best) return best;
  if (flags.options.refine || !flags.dump_costs.empty()) {
    Compiled refined = prepared.compile(candidates[best_at].choice, flags);
    const Prediction replay = predict(refined.plan, machine);
    if (replay.seconds < best_seconds && replay.memory_total <= memory) best = std::move(refined);
  }
  std::rotate(candidates.begin(), candidates.begin() + static_cast<std::ptrdiff_t>(best_at),
              candidates.begin() + static_cast<std::ptrdiff_t>(best_at) + 1);
  return best;
}

// Where plans need more memory than was estimated, the search is done again for less.
Compiled choose_and_compile(const CompileFlags& flags, const Machine& machine, Timings& timings,
                            std::string& search_json) {
  constexpr double kSafety[] = {1, 0.85, 0.7, 0.5};
  Prepared prepared(flags, timings);
  const Logical& whole = prepared.at(1);
  const StepModel model =
      timings.time("search", [&] { return StepModel(whole.imported.module, machine); });
  SearchSpace space = search_space(flags, machine);
  const double memory = space.memory_bytes;
  if (flags.devices > machine.devices() && !flags.quiet)
    std::cerr << "warning: " << flags.devices << " devices are asked for, " << machine.name
              << " has " << machine.devices() << "\n";
  std::optional<SearchResult> first;
  for (const double share : kSafety) {
    space.memory_bytes = share * memory;
    SearchResult result = timings.time("search", [&] { return search_plans(model, space, flags); });
    std::optional<Compiled> best = compile_best(result, prepared, memory, flags, machine, timings);
    if (!first) first = result;
    if (!best) continue;
    best->plan.notes["machine"] = flags.machine.empty() ? "localhost" : flags.machine;
    if (!flags.quiet) print_candidates(result, flags, machine);
    search_json = candidates_json(result, flags, machine);
    return std::move(*best);
  }
  refuse_to_fit(model, *first, memory, machine);
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
  Timings timings;
  const Machine machine = load_machine(flags.machine.empty() ? "localhost" : flags.machine);
  std::string search_json;
  const Compiled compiled =
      searches ? choose_and_compile(flags, machine, timings, search_json)
               : finish(import_and_prepare(flags, Grid::parse(flags.grid, "--grid"), timings),
                        flags, timings);
  timings.time("write_plan", [&] {
    write_plan(compiled.plan, flags.output, compiled.logical.imported.inline_weights);
    if (!search_json.empty()) {
      write_atomically(flags.output / "search.json",
                       [&](std::ostream& out) { out << search_json; });
    }
    return true;
  });
  if (flags.timings) timings.print();
  report(flags, compiled.logical, compiled.plan);
}

}  // namespace tessera
