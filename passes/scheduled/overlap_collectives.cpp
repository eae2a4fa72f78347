// Collectives run while the device computes: each is begun where its operand is there and ended
// where its result is needed, as far as that hides something
// (passes/scheduled/place_collectives.h).
//
//   %w.ag = all_gather %w over z dim 0      =>   %w.ag.start = all_gather.start %w over z dim 0
//   %c = einsum %a, %w.ag "mk,kn->mn"            %b = einsum %i, %v "mk,kn->mn"
//                                                %w.ag = wait %w.ag.start
//                                                %c = einsum %a, %w.ag "mk,kn->mn"
#include <algorithm>
#include <cstdio>
#include <future>
#include <map>
#include <set>

#include "ir/base/text.h"
#include "passes/pass.h"
#include "passes/scheduled/place_collectives.h"

namespace tessera {
namespace {

using What = Slot::What;

// Ops in the schedule's order, with waits.
void write_back(Func& func, const Units& units, const Schedule& schedule) {
  std::set<const Op*> placed;
  const auto end = func.ops().end();
  for (const Slot& slot : schedule) {
    const Unit& unit = units[at(slot.unit)];
    if (slot.what != What::Wait) {
      for (const Op* op : unit.ops) {
        if (placed.insert(op).second) func.move_before(op->place->get(), end);
      }
    }
    if (slot.what == What::Run) continue;
    Op& start = **unit.collective->place;
    Value* result = start.result();
    if (slot.what == What::Start) {
      start.attrs.set(kStarted, true);
      continue;
    }
    const std::string name = result->name;
    func.rename(result, str(name, kStartSuffix));
    Op* wait = func.insert(end, OpKind::Wait, {result}, {}, {result->type}, name);
    wait->origin = start.origin;
    func.replace_all_uses(result, wait->result());
    func.set_operand(wait, 0, result);
  }
}

std::string milliseconds(double seconds) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3f ms", 1e3 * seconds);
  return text;
}

void describe(const Func& func, const Units& units, const Schedule& schedule,
              const ScheduleTime& before, const ScheduleTime& after, PassContext& context) {
  std::map<std::string_view, int> begun;  // those that something is done beside
  for (std::size_t i = 0; i < schedule.size(); ++i) {
    if (schedule[i].what != What::Start || schedule[i + 1].what == What::Wait) continue;
    ++begun[name(units[at(schedule[i].unit)].kind)];
  }
  const std::string list =
      join(begun, ", ", [](const auto& item) { return str(item.second, " ", item.first); });
  context.remark(str("@", func.name(), ": begun early: ", list, "; exposed communication ",
                     milliseconds(before.exposed), " -> ", milliseconds(after.exposed),
                     ", function ", milliseconds(before.seconds), " -> ",
                     milliseconds(after.seconds)));
}

// Bytes of a rank that are taken for good: what functions hand to each other, counted once, and
// what the runtime needs.
double persistent_bytes(const Module& module, const Machine& machine) {
  std::map<std::string_view, double> states;
  std::set<Axes> communicators;
  for (const auto& func : module.funcs()) {
    for (const Arg& arg : func->args()) {
      if (arg.kind != ArgKind::Input)
        states[arg.value->name] =
            static_cast<double>(largest_local_bytes(arg.value->type, module.grid));
    }
    for (const auto& op : func->ops()) {
      if (communicates(op->kind)) communicators.insert(op->attrs.axes("over"));
    }
  }
  double total = machine.device.runtime_bytes +
                 machine.device.communicator_bytes * static_cast<double>(communicators.size());
  for (const auto& [name, bytes] : states) total += bytes;
  return total;
}

double input_bytes(const Module& module, const Func& func) {
  double total = 0;
  for (const Arg& arg : func.args()) {
    if (arg.kind == ArgKind::Input)
      total += static_cast<double>(largest_local_bytes(arg.value->type, module.grid));
  }
  return total;
}

struct Overlapped {
  Func* func;
  Units units;
  Schedule schedule;
  ScheduleTime before, after;
};

// `memory`: bytes that the function's inputs and values may take.
Overlapped overlap(const Module& module, Func& func, const Machine& machine, double memory,
                   const PassOptions& options) {
  func.erase_unused_ops();
  const Units given = units_of(func, module.grid, machine);
  const ScheduleTime blocking = blocking_time(given);
  Overlapped best{&func, given, blocking_schedule(given), blocking, blocking};
  memory = std::max(memory - input_bytes(module, func), peak_bytes(given, best.schedule));
  const Overlap which = options.overlap.value_or(all_overlap());
  const auto overlaps = [&](const Unit& unit) {
    const Link& link = machine.links[at(unit.link)];
    return which.contains(unit.kind) && (options.overlap || link.beside_compute);
  };
  struct Tried {
    Units units;
    Schedule schedule;
    ScheduleTime time;
    double peak = 0;
  };
  const auto tried = [&](Units units) {
    Schedule schedule = overlapping_schedule(units, memory, overlaps);
    const ScheduleTime time = replay(units, schedule);
    const double peak = peak_bytes(units, schedule);
    return Tried{std::move(units), std::move(schedule), time, peak};
  };
  std::future<Tried> moved;
  if (which.contains(OverlapKind::Other))
    moved = std::async(std::launch::async, [&] { return tried(reordered(interleaved(given))); });
  bool first = options.overlap.has_value();  // asked for: whatever it gains
  const auto consider = [&](Tried next) {
    constexpr double kRoundOff = 1e-9;
    if (!first && next.peak > memory) return;
    if (!first && next.time.seconds >= (1 - kRoundOff) * best.after.seconds) return;
    best = {&func, std::move(next.units), std::move(next.schedule), best.before, next.time};
    first = false;
  };
  consider(tried(given));
  if (moved.valid()) consider(moved.get());
  return best;
}

}  // namespace

bool overlap_collectives(Module& module, PassContext& context) {
  const PassOptions& options = context.options;
  const Machine machine = load_machine(options.machine);
  if (options.overlap ? options.overlap->empty() : !machine.beside_compute()) return false;
  const double memory = options.memory_bytes.value_or(machine.device.memory_bytes) -
                        persistent_bytes(module, machine);
  std::vector<Overlapped> funcs;
  bool changes = false;
  for (const auto& func : module.funcs()) {
    funcs.push_back(overlap(module, *func, machine, memory, options));
    const bool communicates = std::ranges::any_of(
        funcs.back().units, [](const Unit& unit) { return unit.collective != nullptr; });
    const bool gains = funcs.back().after.seconds < funcs.back().before.seconds;
    changes = changes || gains || (communicates && options.overlap);
  }
  if (!changes) return false;
  for (const Overlapped& o : funcs) {
    write_back(*o.func, o.units, o.schedule);
    describe(*o.func, o.units, o.schedule, o.before, o.after, context);
  }
  return true;
}

}  // namespace tessera
