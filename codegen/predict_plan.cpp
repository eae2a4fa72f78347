#include "codegen/predict_plan.h"

#include <algorithm>
#include <set>

#include "ir/base/text.h"
#include "passes/cost/collective_cost.h"
#include "passes/cost/op_cost.h"
#include "passes/cost/replay_streams.h"

namespace tessera {
namespace {

using TypeList = std::vector<const Type*>;

TypeList types_of(const PlanFunc& func, const std::vector<int>& values) {
  TypeList types;
  for (const int value : values)
    types.push_back(&func.values[static_cast<std::size_t>(value)].type);
  return types;
}

// A type with every axis taken away, to count what the uncut program does.
struct Uncut {
  std::vector<Type> storage;
  TypeList list;
  explicit Uncut(const TypeList& types) {
    for (const Type* type : types) storage.push_back(type->logical());
    for (const Type& type : storage) list.push_back(&type);
  }
};

class Replay {
 public:
  Replay(const Plan& plan, const Machine& machine) : plan_(plan), machine_(machine) {}

  Prediction run() {
    for (const PlanFunc& func : plan_.funcs) {
      for (const PlanArg& arg : func.args) {
        const PlanValue& value = func.values[static_cast<std::size_t>(arg.value)];
        if (arg.role != ArgRole::Input)
          persistent_bytes_ = std::max(persistent_bytes_,
                                       value.offset + largest_local_bytes(value.type, plan_.grid));
      }
    }
    for (const PlanFunc& func : plan_.funcs) {
      const double times = func.name == "micro" ? static_cast<double>(plan_.micro_batches) : 1.0;
      replay(func, times);
    }
    p_.peak_flops = machine_.peak(widest_) * plan_.grid.ranks();
    count_memory();
    return std::move(p_);
  }

 private:
  void replay(const PlanFunc& func, double times) {
    std::vector<StreamTask> tasks;
    std::map<std::string, int> streams{{"", 0}};
    for (const PlanStep& step : func.steps) {
      StreamTask task = price(func, step, times);
      task.stream =
          streams.try_emplace(step.stream, static_cast<int>(streams.size())).first->second;
      task.after = step.after;
      tasks.push_back(std::move(task));
    }
    const std::vector<Span> spans = replay_streams(tasks);
    const std::vector<double> memory = memory_of_steps(func);
    std::vector<TimelineEvent> events;
    double end = 0;
    for (std::size_t i = 0; i < tasks.size(); ++i) {
      const PlanStep& step = func.steps[i];
      end = std::max(end, spans[i].end);
      if (tasks[i].seconds == 0) continue;
      events.push_back({func.name, label(func, step), category(func, step), step.stream,
                        spans[i].start, spans[i].end - spans[i].start, memory[i],
                        static_cast<int>(i), collective(step)});
    }
    p_.seconds += times * end;
    count_exposed(events, times);
    for (TimelineEvent& event : events) {
      event.start += offset_;
      p_.timeline.push_back(std::move(event));
    }
    offset_ += end;
  }

  // Of each kind of collective, the time that no compute covers; what several share is split
  // evenly.
  void count_exposed(const std::vector<TimelineEvent>& events, double times) {
    std::vector<std::pair<double, const TimelineEvent*>> changes;  // starts and ends
    for (const TimelineEvent& event : events) {
      changes.emplace_back(event.start, &event);
      changes.emplace_back(event.start + event.seconds, &event);
    }
    std::ranges::stable_sort(changes, {}, [](const auto& change) { return change.first; });
    std::set<const TimelineEvent*> computes, collectives;
    double before = 0;
    for (const auto& [time, event] : changes) {
      if (computes.empty() && !collectives.empty()) {
        const double exposed = times * (time - before);
        const double share = exposed / static_cast<double>(collectives.size());
        p_.exposed += exposed;
        for (const TimelineEvent* one : collectives)
          p_.collectives[one->collective].exposed += share;
      }
      before = time;
      auto& running = event->category == "collective" ? collectives : computes;
      if (running.erase(event) == 0) running.insert(event);
    }
  }

  // What is in use while each step runs: everything persistent, and buffers from their first write
  // to their last read. A reshape shares its operand's buffer.
  std::vector<double> memory_of_steps(const PlanFunc& func) const {
    std::vector<int> owner(func.values.size(), -1);
    std::vector<int> first(func.values.size(), -1), last(func.values.size(), -1);
    const auto offset = [&](int v) { return func.values[static_cast<std::size_t>(v)].offset; };
    for (std::size_t i = 0; i < func.steps.size(); ++i) {
      const PlanStep& step = func.steps[i];
      const auto reads = [&](const std::vector<int>& operands) {
        for (const int v : operands) {
          const int own = owner[static_cast<std::size_t>(v)];
          if (own >= 0) last[static_cast<std::size_t>(own)] = static_cast<int>(i);
        }
      };
      reads(step.operands);
      if (step.kind == OpKind::Wait && !step.fused()) {  // what was in flight read its operands
        for (const int before : step.after)
          reads(func.steps[static_cast<std::size_t>(before)].operands);
      }
      for (const int v : step.results) {
        if (offset(v) < persistent_bytes_) continue;
        const int own =
            shares_bytes(func, step) ? owner[static_cast<std::size_t>(step.operands[0])] : v;
        owner[static_cast<std::size_t>(v)] = own;
        if (own < 0) continue;
        if (own == v) first[static_cast<std::size_t>(v)] = static_cast<int>(i);
        last[static_cast<std::size_t>(own)] = static_cast<int>(i);
      }
    }
    std::vector<double> memory(func.steps.size() + 1, 0.0);
    for (std::size_t v = 0; v < func.values.size(); ++v) {
      if (first[v] < 0) continue;
      const auto bytes = static_cast<double>(largest_local_bytes(func.values[v].type, plan_.grid));
      memory[static_cast<std::size_t>(first[v])] += bytes;
      memory[static_cast<std::size_t>(last[v]) + 1] -= bytes;
    }
    double now = static_cast<double>(persistent_bytes_);
    for (double& step : memory) step = now += step;
    return memory;
  }

  static std::string category(const PlanFunc& func, const PlanStep& step) {
    if (!step.fused() && communicates(step.kind)) return "collective";
    return func.name == "update" ? "optimizer" : "compute";
  }

  static std::string label(const PlanFunc& func, const PlanStep& step) {
    const std::string& result = func.values[static_cast<std::size_t>(step.results[0])].name;
    return str(step.fused() ? "fused" : mnemonic(step.kind), " %", result);
  }

  std::string collective(const PlanStep& step) const {
    if (step.fused() || !communicates(step.kind)) return "";
    return str(mnemonic(step.kind), " over ", plan_.grid.text(step.attrs.axes("over")));
  }

  // Its seconds and its link.
  StreamTask price(const PlanFunc& func, const PlanStep& step, double times) {
    const TypeList operands = types_of(func, step.operands), results = types_of(func, step.results);
    const OpView view{step.kind, &step.attrs, operands, results};
    if (!step.fused() && communicates(step.kind)) {
      const Axes& over = step.attrs.axes("over");
      const CollectiveCost cost = collective_cost(machine_, plan_.grid, step.kind, over,
                                                  collective_bytes(view, plan_.grid));
      CollectiveTotal& total = p_.collectives[collective(step)];
      total.count += times;
      total.seconds += times * cost.seconds;
      total.bytes += times * cost.wire_bytes;
      p_.communication += times * cost.seconds;
      return {0, cost.seconds, cost.link, {}};
    }
    double& compute = func.name == "update" ? p_.optimizer : p_.compute;
    if (step.fused()) {
      const double seconds = fused_seconds(machine_, plan_.grid, operands, results);
      compute += times * seconds;
      return {0, seconds, -1, {}};
    }
    const Work work = work_of(view, plan_.grid);
    const double seconds = seconds_of(machine_, work);
    compute += times * seconds;
    if (work.flops > 0) count_flops(view, work, times);
    return {0, seconds, -1, {}};
  }

  static bool step_again(const OpView& view) { return view.attrs->flag(kRecomputed); }

  void count_flops(const OpView& view, const Work& work, double times) {
    const Uncut operands({view.operands.begin(), view.operands.end()});
    const Uncut results({view.results.begin(), view.results.end()});
    const double flops =
        work_of({view.kind, view.attrs, operands.list, results.list}, plan_.grid).flops;
    (step_again(view) ? p_.recomputed_flops : p_.model_flops) += times * flops;
    p_.rank_flops += times * work.flops;
    if (flops > largest_) widest_ = work.dtype;
    largest_ = std::max(largest_, flops);
  }

  // A function's arguments are counted once by name; what is left of the arena holds activations
  // and workspace.
  void count_memory() {
    std::map<std::string, double> components;
    std::map<std::string, bool> seen;
    double known = 0;
    for (const PlanFunc& func : plan_.funcs) {
      for (const PlanArg& arg : func.args) {
        const PlanValue& value = func.values[static_cast<std::size_t>(arg.value)];
        if (arg.role == ArgRole::Input || !seen.emplace(value.name, true).second) continue;
        const auto bytes = static_cast<double>(largest_local_bytes(value.type, plan_.grid));
        components[component(arg, value.name)] += bytes;
        known += bytes;
      }
    }
    components["activations and workspace"] =
        std::max(0.0, static_cast<double>(plan_.arena_bytes) - known);
    components["communicators"] =
        machine_.device.communicator_bytes * static_cast<double>(plan_.comms.size());
    components["runtime"] = machine_.device.runtime_bytes;
    for (const auto& [name, bytes] : components) {
      if (bytes > 0) p_.memory[name] = bytes;
      p_.memory_total += bytes;
    }
  }

  static std::string component(const PlanArg& arg, const std::string& name) {
    if (arg.role == ArgRole::Param) return "parameters";
    if (name.ends_with(".grad")) return "gradients";
    return name.find('.') != std::string::npos ? "optimizer state" : "other state";
  }

  const Plan& plan_;
  const Machine& machine_;
  Prediction p_;
  double offset_ = 0, largest_ = 0;
  std::int64_t persistent_bytes_ = 0;  // parameters and states come first in the arena
  DType widest_ = DType::F32;
};

}  // namespace

Prediction predict(const Plan& plan, const Machine& machine) { return Replay(plan, machine).run(); }

}  // namespace tessera
