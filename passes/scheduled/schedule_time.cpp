#include "passes/scheduled/schedule_time.h"

#include <algorithm>
#include <limits>
#include <map>

namespace tessera {
namespace {

using What = Slot::What;

}  // namespace

Schedule blocking_schedule(const Units& units) {
  Schedule schedule;
  for (std::size_t i = 0; i < units.size(); ++i) {
    const int unit = static_cast<int>(i);
    const bool communicates = units[i].collective != nullptr;
    schedule.push_back({unit, communicates ? What::Start : What::Run});
    if (communicates) schedule.push_back({unit, What::Wait});
  }
  return schedule;
}

ScheduleTime blocking_time(const Units& units) {
  ScheduleTime time;
  for (const Unit& unit : units) {
    time.seconds += unit.seconds;
    if (unit.collective != nullptr) time.exposed += unit.seconds;
  }
  return time;
}

ScheduleTime replay(const Units& units, const Schedule& schedule) {
  std::vector<StreamTask> tasks;
  std::map<Axes, int> streams;
  std::vector<int> task_of(units.size(), -1);
  int last_compute = -1;
  double compute = 0;
  for (const Slot& slot : schedule) {
    const Unit& unit = units[at(slot.unit)];
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
  std::vector<int> first(units.size(), kNone), last(units.size(), -1);
  int step = 0;
  for (const Slot& slot : schedule) {
    const Unit& unit = units[at(slot.unit)];
    const int storage = unit.storage;
    if (slot.what != What::Wait) first[at(storage)] = std::min(first[at(storage)], step);
    last[at(storage)] = std::max(last[at(storage)], step);
    for (const int need : unit.needs) {
      int& end = last[at(units[at(need)].storage)];
      end = std::max(end, step);
    }
    if (unit.collective == nullptr && !unit.sink) ++step;
  }
  std::vector<double> bytes(at(step) + 2, 0.0);
  for (std::size_t i = 0; i < units.size(); ++i) {
    if (first[i] == kNone) continue;
    bytes[at(first[i])] += units[i].bytes;
    bytes[at(last[i]) + 1] -= units[i].bytes;
  }
  double now = 0;
  for (double& b : bytes) b = now += b;
  return bytes;
}

double peak_bytes(const Units& units, const Schedule& schedule) {
  return std::ranges::max(live_bytes(units, schedule));
}

}  // namespace tessera
