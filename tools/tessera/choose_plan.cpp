#include "tools/tessera/choose_plan.h"

#include <algorithm>
#include <future>
#include <iostream>
#include <map>
#include <optional>

#include "codegen/predict_plan.h"
#include "ir/copy.h"
#include "passes/sharded/layout.h"
#include "tools/tessera/choose_grid.h"

namespace tessera {
namespace {

// Whether a plan may leave the layout, and what a rank may keep more by that.
struct Refining {
  Refine when = Refine::Off;
  double bytes = 0;
};

// The module before everything that a choice decides, for each number of micro-batches that was
// asked for; copied for each plan that is tried.
class Prepared {
 public:
  Prepared(CompileFlags flags, Timings& timings) : flags_(std::move(flags)), timings_(timings) {}

  const Logical& at(std::int64_t micro_batches) {
    const auto known = by_count_.find(micro_batches);
    if (known != by_count_.end()) return known->second;
    CompileFlags flags = flags_;
    static_cast<Settings&>(flags.options) = {};
    flags.options.micro_batches = micro_batches;
    const Grid one({{"data", 1}, {"z", 1}, {"y", 1}, {"x", 1}});
    return by_count_.emplace(micro_batches, import_and_prepare(flags, one, timings_)).first->second;
  }

  Compiled compile(Choice choice, const Refining& refining) {
    choice.sub_batches = flags_.options.sub_batches;
    return finish(copy_for(at(choice.micro_batches), choice, refining), flags_, timings_);
  }

  // Whether refine_loops would leave the layout. `whole`: at() of the choice's micro-batches; safe
  // while other plans of it are compiled.
  static bool would_refine(const Logical& whole, const Choice& choice, const Refining& refining) {
    Logical logical = copy_for(whole, choice, refining);
    std::vector<const Pass*> passes = layout_passes();
    passes.push_back(find_pass("refine_loops"));
    PassManager({{}, false}).run(logical.imported.module, passes, logical.context);
    return logical.context.refined;
  }

 private:
  static Logical copy_for(const Logical& whole, const Choice& choice, const Refining& refining) {
    Logical logical{{copy_of(whole.imported.module), {}, {}, {}}, whole.context, whole.manager};
    logical.imported.remarks = whole.imported.remarks;
    logical.imported.absent = whole.imported.absent;
    logical.imported.inline_weights = whole.imported.inline_weights;
    static_cast<Settings&>(logical.context.options) = choice;
    logical.context.options.refine = refining.when;
    logical.context.options.refine_bytes = refining.bytes;
    logical.imported.module.grid = choice.grid;
    logical.manager.run(logical.imported.module, std::vector{find_pass("recompute_activations")},
                        logical.context);
    return logical;
  }

  CompileFlags flags_;
  Timings& timings_;
  std::map<std::int64_t, Logical> by_count_;
};

class Chooser {
 public:
  Chooser(const CompileFlags& flags, const Machine& machine, Timings& timings)
      : flags_(flags), machine_(machine), timings_(timings), prepared_(trials(flags), timings) {
    const bool all = flags.strategy == "auto";  // named strategies are layouts
    refine_ = all ? Refine::WhereWorthIt : Refine::Off;
    if (flags.fixed.refine) refine_ = *flags.fixed.refine ? Refine::On : Refine::Off;
  }

  // Where plans need more memory than was estimated, the search is done again for less.
  ChosenPlan run() {
    constexpr double kSafety[] = {1, 0.85, 0.7, 0.5};
    const Logical& whole = prepared_.at(1);
    const StepModel model =
        timings_.time("search", [&] { return StepModel(whole.imported.module, machine_); });
    SearchSpace space = search_space(flags_, machine_);
    memory_ = space.memory_bytes;
    if (flags_.devices > machine_.devices() && !flags_.quiet)
      std::cerr << "warning: " << flags_.devices << " devices are asked for, " << machine_.name
                << " has " << machine_.devices() << "\n";
    std::optional<SearchResult> first;
    for (const double share : kSafety) {
      space.memory_bytes = share * memory_;
      SearchResult result =
          timings_.time("search", [&] { return search_plans(model, space, flags_); });
      std::optional<Tried> best = compile_best(result);
      if (!first) first = result;
      if (!best) continue;
      if (!flags_.quiet) print_candidates(result, flags_, machine_);
      return {as_asked(std::move(*best), result.candidates.front().choice),
              candidates_json(result, flags_, machine_)};
    }
    refuse_to_fit(model, *first, memory_, machine_);
  }

 private:
  struct Tried {
    Compiled compiled;
    Prediction replay;
    Refining refining;  // how it was compiled
    bool refined() const { return compiled.logical.context.refined; }
  };

  // Plans that are only tried leave no files behind.
  static CompileFlags trials(CompileFlags flags) {
    flags.dump_dir.clear();
    flags.dump_costs.clear();
    return flags;
  }

  Tried compile(const Choice& choice, const Refining& refining) {
    Compiled compiled = prepared_.compile(choice, refining);
    Prediction replay = timings_.time("replay", [&] { return predict(compiled.plan, machine_); });
    return {std::move(compiled), std::move(replay), refining};
  }
  bool fits(const Tried& tried) const { return tried.replay.memory_total <= memory_; }

  // Refined, if the replay agrees that it is faster. Whether to try is found out on the side.
  Tried compile_well(const Candidate& candidate) {
    const Choice& choice = candidate.choice;
    if (refine_ == Refine::Off) return compile(choice, {});
    const Logical& whole = prepared_.at(choice.micro_batches);
    const Refining refining{refine_, std::max(memory_ - candidate.memory, 0.0)};
    std::future<bool> tries = std::async(
        std::launch::async, [&] { return Prepared::would_refine(whole, choice, refining); });
    Tried layout = compile(choice, {});
    if (!timings_.time("wait for refine_loops", [&] { return tries.get(); })) return layout;
    Tried refined = compile(choice, refining);
    const bool keeps =
        fits(refined) && (!fits(layout) || refined.replay.seconds < layout.replay.seconds);
    return keeps ? std::move(refined) : std::move(layout);
  }

  // The estimate was of the layout.
  static void describe(const Prediction& replay, Candidate& candidate) {
    candidate.refined = true;
    candidate.seconds = replay.seconds;
    candidate.communication = replay.exposed;
    candidate.compute = replay.seconds - replay.exposed;
  }

  // Compiles the best candidates, one after the other, until a plan holds what the estimate
  // promised; of those that are nearly as good, the one whose replay is fastest. It comes first in
  // `result` then.
  std::optional<Tried> compile_best(SearchResult& result) {
    constexpr std::size_t kTries = 6, kReplayed = 2;
    constexpr double kNearlyAsGood = 1.02;
    constexpr std::size_t kLarge = 3000;  // ops: another plan takes a second or two more
    const bool large = body_of(prepared_.at(1).imported.module)->ops().size() > kLarge;
    const std::size_t most_replays = large ? 1 : kReplayed;
    std::optional<Tried> best;
    std::size_t best_at = 0, replayed = 0;
    std::vector<Candidate>& candidates = result.candidates;
    for (std::size_t i = 0; i < std::min(kTries, candidates.size()) && candidates[i].fits; ++i) {
      const bool late = best && candidates[i].seconds > kNearlyAsGood * candidates[best_at].seconds;
      if (late || replayed == most_replays) break;
      if (best) ++replayed;  // fits or not
      Tried tried = compile_well(candidates[i]);
      candidates[i].memory = tried.replay.memory_total;
      candidates[i].fits = fits(tried);
      if (tried.refined()) describe(tried.replay, candidates[i]);
      if (!candidates[i].fits) continue;
      if (!best) ++replayed;
      if (best && tried.replay.seconds >= best->replay.seconds) continue;
      best = std::move(tried);
      best_at = i;
    }
    std::rotate(candidates.begin(), candidates.begin() + static_cast<std::ptrdiff_t>(best_at),
                candidates.begin() + static_cast<std::ptrdiff_t>(best_at) + 1);
    return best;
  }

  // With the files that the user asked for, which the best plan alone writes.
  Compiled as_asked(Tried best, const Choice& choice) {
    const bool writes = !flags_.dump_dir.empty() || !flags_.dump_costs.empty();
    Compiled compiled = writes ? Prepared(flags_, timings_).compile(choice, best.refining)
                               : std::move(best.compiled);
    compiled.plan.notes["machine"] = flags_.machine.empty() ? "localhost" : flags_.machine;
    return compiled;
  }

  const CompileFlags& flags_;
  const Machine& machine_;
  Timings& timings_;
  Prepared prepared_;
  Refine refine_ = Refine::Off;
  double memory_ = 0;
};

}  // namespace

ChosenPlan choose_plan(const CompileFlags& flags, const Machine& machine, Timings& timings) {
  return Chooser(flags, machine, timings).run();
}

}  // namespace tessera
