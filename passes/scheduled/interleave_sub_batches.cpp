#include <algorithm>
#include <bit>
#include <limits>
#include <numeric>

#include "passes/scheduled/schedule.h"

namespace tessera {
namespace {

// A turn of a sub-batch: from what waits for collectives to what begins them.
struct Turn {
  int segment = 0;
  int sub_batch = 0;
  auto operator<=>(const Turn&) const = default;
};
constexpr Turn kNone{std::numeric_limits<int>::max(), 0};

class Turns {
 public:
  explicit Turns(const Units& units) : units_(units), turns_(units.size(), kNone) {}

  // Units of one sub-batch keep their order.
  std::vector<Turn> run() {
    for (std::size_t i = 0; i < units_.size(); ++i) {
      const std::uint64_t bits = units_[i].sub_batches;
      if (std::has_single_bit(bits)) {
        turns_[i] = of_one(units_[i], std::countr_zero(bits));
      } else if (bits != 0) {
        turns_[i] = of_many(units_[i]);
      }
    }
    for (std::size_t i = units_.size(); i-- > 0;) {
      if (units_[i].sub_batches == 0) turns_[i] = of_none(units_[i]);
    }
    return std::move(turns_);
  }

 private:
  // A new segment begins where a collective is waited for that this segment has begun.
  Turn of_one(const Unit& unit, int sub_batch) {
    if (at(sub_batch) >= segments_.size()) segments_.resize(at(sub_batch) + 1, 0);
    int& segment = segments_[at(sub_batch)];
    for (const int need : unit.needs) {
      const Unit& other = units_[at(need)];
      if (other.collective != nullptr && other.sub_batches != 0 && !other.sink &&
          turns_[at(need)].segment == segment) {
        ++segment;
        break;
      }
    }
    return {segment, sub_batch};
  }
  // Sums over sub-batches: once all are there.
  Turn of_many(const Unit& unit) const {
    Turn last;
    for (const int need : unit.needs) {
      if (units_[at(need)].sub_batches != 0) last = std::max(last, turns_[at(need)]);
    }
    return last;
  }
  // Parameters, masks: when they are first needed.
  Turn of_none(const Unit& unit) const {
    Turn first = kNone;
    for (const int user : unit.users) first = std::min(first, turns_[at(user)]);
    return first;
  }

  const Units& units_;
  std::vector<Turn> turns_;
  std::vector<int> segments_;  // of each sub-batch, how many it has begun
};

}  // namespace

Units interleaved(const Units& units) {
  const std::vector<Turn> turns = Turns(units).run();
  std::vector<int> order(units.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, {}, [&](int unit) { return turns[at(unit)]; });
  return permuted(units, order);
}

}  // namespace tessera
