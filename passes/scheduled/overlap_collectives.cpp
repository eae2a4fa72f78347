// Collectives run while the device computes: each is begun where its operand is there and ended
// where its result is needed, as far as that hides something
// (passes/scheduled/place_collectives.h).
//
//   %w.ag = all_gather %w over z dim 0      =>   %w.ag.start = all_gather.start %w over z dim 0
//   %c = einsum %a, %w.ag "mk,kn->mn"            %b = einsum %i, %v "mk,kn->mn"
//                                                %w.ag = wait %w.ag.start
//                                                %c = einsum %a, %w.ag "mk,kn->mn"
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
    const Unit& unit = units.all[static_cast<std::size_t>(slot.unit)];
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

std::string_view name(OverlapKind kind) {
  switch (kind) {
    case OverlapKind::Reduce:
      return "OAR";
    case OverlapKind::Scatter:
      return "ORS";
    case OverlapKind::Gather:
      return "OAG";
    default:
      return "other";
  }
}

bool wants(const Overlap& overlap, OverlapKind kind) {
  switch (kind) {
    case OverlapKind::Reduce:
      return overlap.reduce;
    case OverlapKind::Scatter:
      return overlap.scatter;
    case OverlapKind::Gather:
      return overlap.gather;
    default:
      return overlap.other;
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
    ++begun[name(units.all[static_cast<std::size_t>(schedule[i].unit)].kind)];
  }
  const std::string list =
      join(begun, ", ", [](const auto& item) { return str(item.second, " ", item.first); });
  context.remark(str("@", func.name(), ": begun early: ", list, "; exposed communication ",
                     milliseconds(before.exposed), " -> ", milliseconds(after.exposed),
                     ", function ", milliseconds(before.seconds), " -> ",
                     milliseconds(after.seconds)));
}

// Bytes that values may take beside the arguments.
double memory_for_values(const Module& module, const Func& func, double memory) {
  for (const Arg& arg : func.args())
    memory -= static_cast<double>(largest_local_bytes(arg.value->type, module.grid));
  return memory;
}

struct Overlapped {
  Func* func;
  Units units;
  Schedule schedule;
  ScheduleTime before, after;
};

Overlapped overlap(const Module& module, Func& func, const Machine& machine,
                   const PassOptions& options) {
  func.erase_unused_ops();
  const Units given = units_of(func, module.grid, machine);
  const Schedule blocking = blocking_schedule(given);
  Overlapped best{&func, given, blocking, replay(given, blocking), {}};
  best.after = best.before;
  const double memory =
      std::max(memory_for_values(module, func, options.memory_bytes), peak_bytes(given, blocking));
  const Overlap which = options.overlap.value_or(Overlap{});
  const auto overlaps = [&](const Unit& unit) {
    const Link& link = machine.links[static_cast<std::size_t>(unit.link)];
    return wants(which, unit.kind) && (options.overlap || link.beside_compute);
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
  if (which.other) moved = std::async(std::launch::async, [&] { return tried(reordered(given)); });
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
  if (options.overlap ? options.overlap->none() : !machine.beside_compute()) return false;
  std::vector<Overlapped> funcs;
  bool gains = options.overlap.has_value(), any = false;
  for (const auto& func : module.funcs()) {
    funcs.push_back(overlap(module, *func, machine, options));
    gains = gains || funcs.back().after.seconds < funcs.back().before.seconds;
    any = any || funcs.back().units.has_collectives;
  }
  if (!gains || !any) return false;
  for (const Overlapped& o : funcs) {
    write_back(*o.func, o.units, o.schedule);
    describe(*o.func, o.units, o.schedule, o.before, o.after, context);
  }
  return true;
}

}  // namespace tessera
