#include "passes/scheduled/schedule_time.h"

#include <algorithm>
#include <limits>
#include <map>

namespace tessera {
namespace {

using What = Slot::What;

std::size_t at(int i) { return static_cast<std::size_t>(i); }

}  // namespace

Schedule blocking_schedule(const Units& units) {
  Schedule schedule;
  for (std::size_t i = 0; i < units.all.size(); ++i) {
    const int unit = static_cast<int>(i);
    const bool communicates = units.all[i].collective != nullptr;
    schedule.push_back({unit, communicates ? What::Start : What::Run});
    if (communicates) schedule.push_back({unit, What::Wait});
  }
  return schedule;
}

ScheduleTime replay(const Units& units, const Schedule& schedule) {
  std::vector<StreamTask> tasks;
  std::map<Axes, int> streams;
  std::vector<int> task_of(units.all.size(), -1);
  int last_compute = -1;
  double compute = 0;
  for (const Slot& slot : schedule) {
    const Unit& unit = units.all[at(slot.unit)];
    int& task_of_unit = task_of[at(slot.unit)];
    StreamTask task;
    if (slot.what == What::Start) {
      const Axes& over = unit.collective->attrs.axes("over");
      task.stream = streams.try_emplace(over, static_cast<int>(streams.size()) + 1).first->second;
      task.seconds = unit.seconds;
      task.link = unit.link;
      if (last_compute >= 0) task.after.push_back(last_compute);
    } else if (slot.what == What::Wait) {
      task.after.push_back(task_of_unit);
    } else {
      task.seconds = unit.seconds;
      compute += unit.seconds;
    }
    if (slot.what != What::Start) last_compute = static_cast<int>(tasks.size());
    if (slot.what != What::Wait) task_of_unit = static_cast<int>(tasks.size());
    tasks.push_back(std::move(task));
  }
  const std::vector<Span> spans = replay_streams(tasks);
  ScheduleTime time;
  for (const Span& span : spans) time.seconds = std::max(time.seconds, span.end);
  time.exposed = time.seconds - compute;
  return time;
}

std::vector<double> live_bytes(const Units& units, const Schedule& schedule) {
  constexpr int kNone = std::numeric_limits<int>::max();
  const std::size_t count = schedule.size();
  std::vector<int> first(units.all.size(), kNone), last(units.all.size(), -1);
  std::vector<int> step_of_slot;
  int step = 0;
  for (std::size_t s = 0; s < count; ++s) {
    const Unit& unit = units.all[at(schedule[s].unit)];
    step_of_slot.push_back(step);
    const int storage = unit.storage;
    if (schedule[s].what != What::Wait) first[at(storage)] = std::min(first[at(storage)], step);
    last[at(storage)] = std::max(last[at(storage)], step);
    for (const int need : unit.needs) {
      int& end = last[at(units.all[at(need)].storage)];
      end = std::max(end, step);
    }
    if (unit.collective == nullptr && !unit.sink) ++step;
  }
  std::vector<double> bytes(at(step) + 2, 0.0);
  for (std::size_t i = 0; i < units.all.size(); ++i) {
    if (first[i] == kNone) continue;
    bytes[at(first[i])] += units.all[i].bytes;
    bytes[at(last[i]) + 1] -= units.all[i].bytes;
  }
  double now = 0;
  for (double& b : bytes) b = now += b;
  return bytes;
}

double peak_bytes(const Units& units, const Schedule& schedule) {
  return std::ranges::max(live_bytes(units, schedule));
}

}  // namespace tessera
