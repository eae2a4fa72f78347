// `tessera explain PLAN --why NAME`: which op and which loop caused a value or collective, what it
// costs, and what the grid without its axes would cost.
#include <algorithm>
#include <cstdio>

#include "ir/base/diag.h"
#include "ir/base/index_map.h"
#include "ir/base/text.h"
#include "passes/cost/collective_cost.h"
#include "passes/cost/op_cost.h"
#include "tools/tessera/explain_parts.h"

namespace tessera {
namespace {

struct Found {
  const PlanFunc* func = nullptr;
  const PlanStep* step = nullptr;  // null: an argument
  int value = -1;
};

Found find(const Plan& plan, std::string name) {
  if (!name.empty() && name[0] == '%') name.erase(0, 1);
  Found argument;
  for (const PlanFunc& func : plan.funcs) {
    for (const PlanStep& step : func.steps) {
      for (const int v : step.results) {
        if (func.values[static_cast<std::size_t>(v)].name == name) return {&func, &step, v};
      }
    }
    for (const PlanArg& arg : func.args) {
      if (func.values[static_cast<std::size_t>(arg.value)].name == name && argument.value < 0)
        argument = {&func, nullptr, arg.value};
    }
  }
  if (argument.value >= 0) return argument;
  std::vector<std::string> near;
  for (const PlanFunc& func : plan.funcs) {
    for (const PlanValue& value : func.values) {
      if (near.size() < 5 && value.name.find(name) != std::string::npos) near.push_back(value.name);
    }
  }
  throw CompileError(
      "--why", str("the plan has no value ", in_quotes(name)),
      near.empty() ? std::vector<std::string>{} : std::vector{str("there are ", join(near, ", "))});
}

class Why {
 public:
  Why(const Explained& e, const Found& found) : e_(e), func_(*found.func), found_(found) {}

  void print() const {
    const PlanValue& value = func_.values[static_cast<std::size_t>(found_.value)];
    std::printf("%%%s, in @%s\n", value.name.c_str(), func_.name.c_str());
    std::printf("  a rank holds %s of %s\n",
                bytes_text(static_cast<double>(largest_local_bytes(value.type, grid()))).c_str(),
                to_text(value.type, grid()).c_str());
    if (found_.step == nullptr) return argument();
    std::printf("  %s\n", to_line(func_, *found_.step, grid()).c_str());
    const bool collective = !found_.step->fused() && communicates(found_.step->kind);
    collective ? explain_collective() : explain_op();
    readers();
  }

 private:
  const Grid& grid() const { return e_.plan.grid; }
  std::string name(int v) const { return "%" + func_.values[static_cast<std::size_t>(v)].name; }
  const Type& type(int v) const { return func_.values[static_cast<std::size_t>(v)].type; }

  void argument() const {
    const auto weight =
        e_.plan.weights.find(func_.values[static_cast<std::size_t>(found_.value)].name);
    if (weight != e_.plan.weights.end())
      std::printf("  a parameter, from %s\n", weight->second.file.c_str());
    readers();
  }

  double seconds() const {
    for (const TimelineEvent& event : e_.prediction.timeline) {
      if (event.func == func_.name &&
          &func_.steps[static_cast<std::size_t>(event.step)] == found_.step)
        return event.seconds;
    }
    return 0;
  }

  void explain_op() const {
    const double own = seconds();
    const double times = func_.name == "micro" ? static_cast<double>(e_.plan.micro_batches) : 1;
    std::printf("  takes %s, %s of a step\n", seconds_text(own).c_str(),
                percent(times * own, e_.prediction.seconds).c_str());
    const PlanStep& step = *found_.step;
    if (step.attrs.flag(kRecomputed))
      std::printf(
          "  it is made again for the backward pass: keeping it would take its memory from "
          "the forward pass until here\n");
    if (step.fused() || step.kind != OpKind::Einsum || type(found_.value).partial.axes.empty())
      return;
    std::printf("  its sum is partial: %s\n", loops_text(step).c_str());
  }

  // Which loop of an einsum each axis cuts.
  std::string loops_text(const PlanStep& step) const {
    const IndexMap map = parse_index_map(step.attrs.text("spec"), "einsum");
    std::vector<std::string> parts;
    std::string seen;
    for (std::size_t i = 0; i < map.operands.size(); ++i) {
      for (std::size_t d = 0; d < map.operands[i].size(); ++d) {
        const char loop = map.operands[i][d];
        const Axes& axes = type(step.operands[i]).cuts[d];
        if (axes.empty() || seen.find(loop) != std::string::npos) continue;
        seen += loop;
        const bool summed = map.results[0].find(loop) == std::string::npos;
        parts.push_back(
            str(grid().text(axes), " cuts loop ", loop, summed ? ", which is summed" : ""));
      }
    }
    return join(parts, "; ");
  }

  void explain_collective() const {
    const PlanStep& step = *found_.step;
    const Axes& over = step.attrs.axes("over");
    const int operand = step.operands[0];
    const Type& larger = type(step.kind == OpKind::AllGather ? found_.value : operand);
    const auto bytes = static_cast<double>(largest_local_bytes(larger, grid()));
    const CollectiveCost cost = collective_cost(e_.machine, grid(), step.kind, over, bytes);
    const std::string key = str(mnemonic(step.kind), " over ", grid().text(over));
    std::printf("  takes %s: a rank sends %s to others of a group of %d (%s)\n",
                seconds_text(cost.seconds).c_str(), bytes_text(cost.wire_bytes).c_str(),
                grid().size(over), std::string(tessera::name(cost.algorithm)).c_str());
    const auto total = e_.prediction.collectives.find(key);
    if (total != e_.prediction.collectives.end())
      std::printf("  all %g \"%s\" take %s, %s of a step\n", total->second.count, key.c_str(),
                  seconds_text(total->second.seconds).c_str(),
                  percent(total->second.seconds, e_.prediction.seconds).c_str());
    cause(operand, over);
    elsewhere(over);
  }

  // A partial sum is caused by the op that made it, a gather by the ops that read it.
  void cause(int operand, const Axes& over) const {
    const PlanStep* maker = maker_of(operand);
    if (!type(operand).partial.axes.empty() && intersects(type(operand).partial.axes, over)) {
      std::printf("  because %s holds addends over %s", name(operand).c_str(),
                  grid().text(type(operand).partial.axes).c_str());
      if (maker != nullptr) std::printf(":\n    %s", to_line(func_, *maker, grid()).c_str());
      if (maker != nullptr && !maker->fused() && maker->kind == OpKind::Einsum)
        std::printf("\n    %s", loops_text(*maker).c_str());
      std::printf("\n");
      return;
    }
    std::printf("  because %s lies as %s", name(operand).c_str(),
                to_text(type(operand), grid()).c_str());
    if (maker != nullptr)
      std::printf(", made by %s",
                  maker->fused() ? "a fused step" : std::string(mnemonic(maker->kind)).c_str());
    std::printf(", and its readers need %s\n", to_text(type(found_.value), grid()).c_str());
    for (const PlanStep& step : func_.steps) {
      const bool reads = std::ranges::find(step.operands, found_.value) != step.operands.end();
      if (reads && !step.fused() && step.kind == OpKind::Einsum)
        std::printf("    in %s: %s\n", name(step.results[0]).c_str(), loops_text(step).c_str());
    }
  }

  const PlanStep* maker_of(int value) const {
    for (const PlanStep& step : func_.steps) {
      if (std::ranges::find(step.results, value) != step.results.end()) return &step;
    }
    return nullptr;
  }

  // The best grid of the search on which none of these axes is there to communicate over.
  void elsewhere(const Axes& over) const {
    if (!e_.search || e_.search->at("grids").empty()) return;
    const Json& grids = e_.search->at("grids");
    std::vector<std::string> absent;
    for (const AxisId axis : over) {
      const std::string& full = grid().name(axis);
      absent.push_back(full.substr(0, full.find('.')) + "=1");
    }
    for (const Json& row : grids) {
      const std::string text = "," + row.at("grid").get<std::string>() + ",";
      const bool without = std::ranges::all_of(absent, [&](const std::string& part) {
        return text.find("," + part + ",") != std::string::npos;
      });
      if (!without || !row.at("fits").get<bool>()) continue;
      const double best = grids[0].at("seconds");
      std::printf(
          "  elsewhere: with %s the best is %s%s%s: %s a step (%+.1f%%), compute %s, "
          "communication %s, %s\n",
          join(absent, ", ").c_str(), row.at("grid").get<std::string>().c_str(),
          row.at("options").get<std::string>().empty() ? "" : ", ",
          row.at("options").get<std::string>().c_str(), seconds_text(row.at("seconds")).c_str(),
          100 * (row.at("seconds").get<double>() / best - 1),
          seconds_text(row.at("compute_seconds")).c_str(),
          seconds_text(row.at("communication_seconds")).c_str(),
          bytes_text(row.at("memory_bytes")).c_str());
      return;
    }
    std::printf("  elsewhere: the search saw no grid with %s that fits and comes near the best\n",
                join(absent, ", ").c_str());
  }

  void readers() const {
    constexpr std::size_t kShown = 6;
    std::vector<std::string> names;
    for (const PlanStep& step : func_.steps) {
      if (std::ranges::find(step.operands, found_.value) != step.operands.end())
        names.push_back(name(step.results[0]));
    }
    if (names.empty()) return;
    const std::size_t count = names.size();
    names.resize(std::min(count, kShown));
    std::printf("  read by %s%s\n", join(names, ", ").c_str(),
                count > kShown ? str(" and ", count - kShown, " more").c_str() : "");
  }

  const Explained& e_;
  const PlanFunc& func_;
  Found found_;
};

}  // namespace

void print_why(const Explained& e, const std::string& name) { Why(e, find(e.plan, name)).print(); }

}  // namespace tessera
