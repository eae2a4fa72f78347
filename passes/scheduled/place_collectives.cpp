#include "passes/scheduled/place_collectives.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

namespace tessera {
namespace {

using What = Slot::What;
constexpr int kNever = std::numeric_limits<int>::max();

// How long each link stays free from a compute step on: until a step needs a collective over it
// that nothing is done beside.
class FreeStretch {
 public:
  FreeStretch(const Units& units, const std::vector<int>& earliest) {
    std::vector<std::pair<int, int>> needs;  // step, link
    before_.push_back(0);
    for (const Unit& unit : units) {
      if (unit.collective != nullptr || unit.sink) continue;
      const int step = static_cast<int>(before_.size()) - 1;
      add_needs(units, earliest, unit, step, needs);
      before_.push_back(before_.back() + unit.seconds);
    }
    int links = 0;
    for (const auto& [step, link] : needs) links = std::max(links, link + 1);
    ends_.assign(at(links), std::vector<double>(before_.size(), before_.back()));
    for (const auto& [step, link] : needs) ends_[at(link)][at(step)] = before_[at(step)];
    for (auto& ends : ends_) {  // the next step's need ends this one's stretch
      double next = before_.back();
      for (std::size_t step = ends.size(); step-- > 0;) {
        const double own = ends[step];
        ends[step] = next;
        next = std::min(next, own);
      }
    }
  }

  int steps() const { return static_cast<int>(before_.size()) - 1; }
  double compute(int from, int to) const { return before_[at(to)] - before_[at(from)]; }
  double seconds(int link, int step) const {
    const double end = at(link) < ends_.size() ? ends_[at(link)][at(step)] : before_.back();
    return end - before_[at(step)];
  }

 private:
  static void add_needs(const Units& units, const std::vector<int>& earliest, const Unit& unit,
                        int step, std::vector<std::pair<int, int>>& needs) {
    for (const int need : unit.needs) {
      const Unit& other = units[at(need)];
      if (other.collective == nullptr) continue;
      if (earliest[at(need)] < 0) needs.emplace_back(step, other.link);
      add_needs(units, earliest, other, step, needs);
    }
  }

  std::vector<double> before_;             // compute seconds before each step
  std::vector<std::vector<double>> ends_;  // by link and step, in compute seconds
};

// Walks over the compute steps with a clock, and begins and ends collectives on the way. Links are
// taken to serve one collective after the other: the sum is that of the replay. Sums of gradients
// wait for their collectives; they are no places to count by.
class Walk {
 public:
  // `earliest`: by unit, the compute step beside which a collective may begin, at the soonest;
  // -1: as soon as its operand is there.
  Walk(const Units& units, const std::vector<int>& earliest, const std::vector<double>& seconds)
      : units_(units), earliest_(earliest), seconds_(seconds), free_stretch_(units, earliest) {
    missing_.resize(units_.size());
    for (std::size_t i = 0; i < units_.size(); ++i) {
      missing_[i] = units_[i].needs.size();
      if (units_[i].collective != nullptr && missing_[i] == 0) queue(static_cast<int>(i));
    }
    state_.resize(units_.size());
    reached_.resize(units_.size());
    ready_at_.resize(units_.size());
    done_.resize(units_.size());
    end_by_.resize(units_.size());
  }

  struct Result {
    Schedule schedule;
    std::vector<double> clock;  // at each compute step, and at the end
    std::vector<int> step_of;   // by unit: compute steps before it
    std::vector<std::vector<std::pair<double, double>>> busy;  // of each link
  };

  Result run() {
    for (std::size_t i = 0; i < units_.size(); ++i) {
      const int unit = static_cast<int>(i);
      result_.step_of.push_back(step_);
      if (units_[i].collective != nullptr) {
        if (earliest_[i] == kNever) require(unit);
        continue;
      }
      end_what_is_done();
      begin_what_can(false);
      if (units_[i].sink) {
        reached_[i] = 1;
        if (missing_[i] == 0) compute(unit);
        continue;
      }
      for (const int need : units_[i].needs) require(need);
      begin_what_can(true);  // beside the step, not beside what it waits for
      result_.clock.push_back(now_);
      ++step_;
      compute(unit);
    }
    result_.clock.push_back(now_);
    for (std::size_t i = 0; i < units_.size(); ++i) {
      if (units_[i].collective != nullptr) require(static_cast<int>(i));
    }
    return std::move(result_);
  }

 private:
  enum class State : std::uint8_t { Waiting, InFlight, Done };

  void compute(int unit) {
    result_.schedule.push_back({unit, What::Run});
    now_ += units_[at(unit)].seconds;
    finish(unit);
  }

  // Sums that were put off run as soon as they can.
  void finish(int unit) {
    state_[at(unit)] = State::Done;
    for (const int user : units_[at(unit)].users) {
      if (--missing_[at(user)] > 0) continue;
      if (units_[at(user)].collective != nullptr) {
        ready_at_[at(user)] = step_;
        queue(user);
      }
      if (reached_[at(user)] != 0) compute(user);
    }
  }

  // Its operand is there.
  void queue(int unit) {
    if (earliest_[at(unit)] <= step_) {
      waiting_.push_back(unit);
    } else if (earliest_[at(unit)] != kNever) {
      later_[earliest_[at(unit)]].push_back(unit);
    }
  }

  void begin(int unit) {
    const Unit& u = units_[at(unit)];
    if (at(u.link) >= free_.size()) free_.resize(at(u.link) + 1), result_.busy.resize(free_.size());
    double& free = free_[at(u.link)];
    const double start = std::max(now_, free);
    free = start + seconds_[at(unit)];
    if (free > start) result_.busy[at(u.link)].emplace_back(start, free);
    done_[at(unit)] = free;
    end_by_[at(unit)] = end_by(unit);
    state_[at(unit)] = State::InFlight;
    in_flight_.push_back(unit);
    result_.schedule.push_back({unit, What::Start});
  }

  void end(int unit) {
    now_ = std::max(now_, done_[at(unit)]);
    std::erase(in_flight_, unit);
    result_.schedule.push_back({unit, What::Wait});
    finish(unit);
  }

  // In the function's order, which is also the order of need. First what somebody may soon wait
  // for; then, beside a step, gradients and gathers for later steps.
  void begin_what_can(bool beside_step) {
    for (auto due = later_.begin(); due != later_.end() && due->first <= step_;
         due = later_.begin()) {
      for (const int unit : due->second) {
        if (state_[at(unit)] == State::Waiting) waiting_.push_back(unit);
      }
      later_.erase(due);
    }
    for (bool again = true; again;) {
      again = false;
      std::ranges::sort(waiting_);
      for (std::size_t i = 0; i < waiting_.size(); ++i) {
        const int unit = waiting_[i];
        if (!may_begin(unit, beside_step)) continue;
        waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(i--));
        begin(unit);
      }
      again = end_what_is_done();
    }
  }

  bool may_begin(int unit, bool beside_step) const {
    if (!beside_step) return earliest_[at(unit)] < 0 && !units_[at(unit)].sink;
    if (units_[at(unit)].sink && earliest_[at(unit)] < 0) return is_good_time(unit);
    return earliest_[at(unit)] <= step_;
  }

  // A gradient's collective waits, for as long as it takes itself, for a step beside which its link
  // is free longer.
  bool is_good_time(int unit) const {
    const Unit& u = units_[at(unit)];
    const double now = free_stretch_.seconds(u.link, step_);
    const double waited = free_stretch_.compute(ready_at_[at(unit)], step_);
    for (int step = step_; waited + free_stretch_.compute(step_, step) <= u.seconds; ++step) {
      if (std::min(free_stretch_.seconds(u.link, step), u.seconds) > now) return false;
      if (step == free_stretch_.steps()) break;
    }
    return true;
  }

  // What has had its time and frees something by its end: a buffer, or a collective after it.
  bool end_what_is_done() {
    bool any = false;
    for (std::size_t i = 0; i < in_flight_.size();) {
      const int unit = in_flight_[i];
      if (end_by_[at(unit)] > now_) {
        ++i;
        continue;
      }
      end(unit);
      any = true;
    }
    return any;
  }

  // When it is ended though nobody needs it yet.
  double end_by(int unit) const {
    const Unit& u = units_[at(unit)];
    const auto has_bytes = [&](int need) { return units_[at(need)].bytes > 0; };
    const auto communicates = [&](int user) { return units_[at(user)].collective != nullptr; };
    if (std::ranges::any_of(u.users, communicates)) return done_[at(unit)];
    if (std::ranges::any_of(u.needs, has_bytes)) return done_[at(unit)] + seconds_[at(unit)];
    return HUGE_VAL;
  }

  // What is needed now: a collective, or a sum that was put off until its collectives have ended.
  void require(int unit) {
    if (state_[at(unit)] == State::Done) return;
    if (state_[at(unit)] == State::Waiting) {
      for (const int need : units_[at(unit)].needs) require(need);
      if (units_[at(unit)].collective == nullptr) return;
      std::erase(waiting_, unit);
      begin(unit);
    }
    end(unit);
  }

  const Units& units_;
  const std::vector<int>& earliest_;
  const std::vector<double>& seconds_;
  const FreeStretch free_stretch_;
  std::vector<std::size_t> missing_;       // units that each one still needs
  std::vector<int> waiting_;               // collectives whose operands are there
  std::map<int, std::vector<int>> later_;  // those that may begin at a later step only
  std::vector<int> in_flight_;
  std::vector<State> state_;
  std::vector<int> ready_at_;          // by collective: the step at which its operand was there
  std::vector<char> reached_;          // sums whose place in the list has come
  std::vector<double> done_, end_by_;  // of collectives
  std::vector<double> free_;           // of links
  double now_ = 0;
  int step_ = 0;
  Result result_;
};

// Pieces of a link's time that nothing else takes, as a clock of its own.
class IdleClock {
 public:
  explicit IdleClock(const std::vector<std::pair<double, double>>& busy) : busy_(busy) {
    double sum = 0;
    for (const auto& [start, end] : busy_) before_.push_back(sum), sum += end - start;
  }
  double at(double time) const {
    const auto next = std::ranges::upper_bound(busy_, time, {}, &std::pair<double, double>::first);
    if (next == busy_.begin()) return time;
    const auto i = static_cast<std::size_t>(next - busy_.begin()) - 1;
    return time - before_[i] - (std::min(time, busy_[i].second) - busy_[i].first);
  }

 private:
  const std::vector<std::pair<double, double>>& busy_;
  std::vector<double> before_;
};

// How early each gather of what is there anyway may begin.
class GatherTimes {
 public:
  GatherTimes(const Units& units, const Walk::Result& walk, double memory)
      : units_(units),
        walk_(walk),
        memory_(memory),
        live_(live_bytes(units, walk.schedule)),
        idle_(walk.busy.size()) {
    for (std::size_t link = 0; link < idle_.size(); ++link) {
      const IdleClock clock(walk.busy[link]);
      for (const double time : walk.clock) idle_[link].push_back(clock.at(time));
    }
  }

  // From the last to the first, each before the next one on its link.
  void set(const std::vector<int>& gathers, std::vector<int>& earliest) {
    std::map<int, double> next;  // idle time at which the next one of the link begins
    for (auto it = gathers.rbegin(); it != gathers.rend(); ++it) {
      const Unit& unit = units_[at(*it)];
      const int use = first_use(*it);
      const std::vector<double>& idle = idle_of(unit.link);
      double end = idle[at(use)] - unit.seconds;  // its own time to spare
      const auto after = next.find(unit.link);
      if (after != next.end()) end = std::min(end, after->second);
      const double start = end - unit.seconds;
      next[unit.link] = start;
      const auto found = std::upper_bound(idle.begin(), idle.begin() + use + 1, start);
      const int wanted = std::max(static_cast<int>(found - idle.begin()) - 1, ready(*it));
      earliest[at(*it)] = as_memory_allows(unit, wanted, use);
    }
  }

 private:
  const std::vector<double>& idle_of(int link) const {
    return at(link) < idle_.size() ? idle_[at(link)] : walk_.clock;
  }
  int first_use(int unit) const {
    int use = static_cast<int>(walk_.clock.size()) - 1;
    for (const int user : units_[at(unit)].users) use = std::min(use, walk_.step_of[at(user)]);
    return use;
  }
  int ready(int unit) const {
    int step = 0;
    for (const int need : units_[at(unit)].needs)
      step = std::max(step, walk_.step_of[at(need)] + 1);
    return step;
  }
  int as_memory_allows(const Unit& unit, int wanted, int use) {
    int step = use;
    while (step > wanted && live_[at(step) - 1] + unit.bytes <= memory_) {
      --step;
      live_[at(step)] += unit.bytes;
    }
    return step;
  }

  const Units& units_;
  const Walk::Result& walk_;
  const double memory_;
  std::vector<double> live_;
  std::vector<std::vector<double>> idle_;  // by link, at each compute step
};

}  // namespace

Schedule overlapping_schedule(const Units& units, double memory,
                              const std::function<bool(const Unit&)>& overlaps) {
  std::vector<int> earliest(units.size(), -1), gathers;
  std::vector<double> seconds;
  for (std::size_t i = 0; i < units.size(); ++i) {
    const Unit& unit = units[i];
    seconds.push_back(unit.seconds);
    if (unit.collective == nullptr) continue;
    if (!overlaps(unit)) {
      earliest[i] = kNever;
    } else if (unit.collective->kind == OpKind::AllGather) {
      gathers.push_back(static_cast<int>(i));
      earliest[i] = kNever;
    }
  }
  std::vector<double> free_gathers = seconds;
  for (const int gather : gathers) free_gathers[at(gather)] = 0;
  const Walk::Result without = Walk(units, earliest, free_gathers).run();
  GatherTimes(units, without, memory).set(gathers, earliest);
  return Walk(units, earliest, seconds).run().schedule;
}

}  // namespace tessera
