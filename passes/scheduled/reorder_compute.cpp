#include <algorithm>

#include "passes/scheduled/schedule.h"

namespace tessera {
namespace {

// Looks around each collective for compute that it can run beside.
class Reorder {
 public:
  explicit Reorder(const Units& units) : units_(units), marked_(units.size(), -1) {
    for (std::size_t i = 0; i < units.size(); ++i) order_.push_back(static_cast<int>(i));
  }

  std::vector<int> run() {
    for (std::size_t p = 0; p < order_.size(); ++p) {
      if (is_waited_for(p)) hoist_operand(p);
    }
    for (std::size_t p = 0; p < order_.size(); ++p) {
      if (is_waited_for(p)) fill_wait(p);
    }
    return std::move(order_);
  }

 private:
  bool is_waited_for(std::size_t place) const {
    const Unit& unit = units_[at(order_[place])];
    return unit.collective != nullptr && !unit.sink && !unit.needs.empty();
  }

  // What leads to it comes before compute that it does not need.
  void hoist_operand(std::size_t place) {
    const int self = order_[place];
    const double cost = units_[at(self)].seconds;
    marked_[at(self)] = self;
    mark_needs(self, self);
    double beside = 0, before = 0;  // compute of others, and of what leads to it
    std::size_t from = place;
    for (std::size_t p = place; p-- > 0 && beside < cost;) {
      const Unit& unit = units_[at(order_[p])];
      if (marked_[at(order_[p])] == self) {
        mark_needs(order_[p], self);
        before += unit.seconds;
        if (before > cost) break;  // it would delay what it passes by more than it gains
      } else if (unit.collective == nullptr && !unit.sink) {
        beside += unit.seconds;
        from = p;
      }
    }
    if (from == place) return;
    const auto first = order_.begin() + static_cast<std::ptrdiff_t>(from);
    const auto last = order_.begin() + static_cast<std::ptrdiff_t>(place) + 1;
    std::stable_partition(first, last, [&](int unit) { return marked_[at(unit)] == self; });
  }

  // Compute that does not need its result comes before what does.
  void fill_wait(std::size_t place) {
    const int self = order_[place];
    const int mark = self + static_cast<int>(units_.size());  // not hoist_operand's
    const double cost = units_[at(self)].seconds;
    marked_[at(self)] = mark;
    double beside = 0, after = 0;  // compute of others, and of what comes after it
    std::size_t first = order_.size(), end = 0;
    for (std::size_t p = place + 1; p < order_.size() && beside < cost; ++p) {
      const Unit& unit = units_[at(order_[p])];
      const bool depends =
          std::ranges::any_of(unit.needs, [&](int need) { return marked_[at(need)] == mark; });
      if (depends) {
        marked_[at(order_[p])] = mark;
        first = std::min(first, p);
        after += unit.seconds;
        if (after > cost) break;  // too far away
      } else if (unit.collective == nullptr && !unit.sink) {
        beside += unit.seconds;
        end = p + 1;
      }
    }
    if (end <= first) return;
    std::stable_partition(order_.begin() + static_cast<std::ptrdiff_t>(first),
                          order_.begin() + static_cast<std::ptrdiff_t>(end),
                          [&](int unit) { return marked_[at(unit)] != mark; });
  }

  void mark_needs(int unit, int mark) {
    for (const int need : units_[at(unit)].needs) marked_[at(need)] = mark;
  }

  const Units& units_;
  std::vector<int> order_;
  std::vector<int> marked_;  // by unit: the last search that found it to belong to its collective
};

}  // namespace

Units reordered(const Units& units) { return permuted(units, Reorder(units).run()); }

}  // namespace tessera
