// Whether the collectives of all ranks fit together.
#include <algorithm>
#include <map>

#include "ir/base/lexer.h"
#include "ir/base/text.h"
#include "runtime/check_plan.h"

namespace tessera {
namespace {

std::size_t at(int i) { return static_cast<std::size_t>(i); }

// The n-th collective over one communicator and one set of members is the same one on all of them.
struct Instance {
  int communicator = 0;
  std::vector<int> members;
  int number = 0;
  auto operator<=>(const Instance&) const = default;
};

class OrderChecker {
 public:
  explicit OrderChecker(const std::vector<std::vector<IssuedCollective>>& ranks) : ranks_(ranks) {
    for (const auto& issued : ranks) add_rank(issued);
  }

  std::vector<std::string> run() {
    check_members();
    check_circles();
    check_one_order();
    return std::move(found_);
  }

 private:
  void add_rank(const std::vector<IssuedCollective>& issued) {
    std::map<std::pair<int, std::vector<int>>, int> counts;
    std::vector<int> line;
    for (const IssuedCollective& c : issued) {
      const int number = counts[{c.communicator, c.members}]++;
      const auto [found, fresh] = index_.try_emplace({c.communicator, c.members, number},
                                                     static_cast<int>(instances_.size()));
      if (fresh) instances_.push_back({found->first, {}});
      line.push_back(found->second);
      instances_[at(found->second)].second.emplace_back(static_cast<int>(lines_.size()), &c);
    }
    lines_.push_back(std::move(line));
  }

  static std::string text(int rank, const IssuedCollective& c) {
    return str("rank ", rank, " step ", c.step, " ", c.what);
  }

  void check_members() {
    for (const auto& [instance, issued] : instances_) {
      const auto& [first_rank, first] = issued[0];
      for (const auto& [rank, c] : issued) {
        if (c->step == first->step && c->what == first->what) continue;
        found_.push_back(str("C5: collective ", instance.number, " of communicator ",
                             instance.communicator, ": ", text(first_rank, *first), ", but ",
                             text(rank, *c)));
        return;
      }
      for (const int member : instance.members) {
        const bool takes_part =
            std::ranges::any_of(issued, [&](const auto& item) { return item.first == member; });
        if (takes_part) continue;
        found_.push_back(str("C5: ", text(first_rank, *first), " waits for rank ", member,
                             ", which issues only ", instance.number,
                             " collectives over this communicator"));
        return;
      }
    }
  }

  // One collective at a time on a device: each waits for the one before it on every member.
  void check_circles() {
    std::vector<std::vector<int>> next(instances_.size());
    std::vector<int> before(instances_.size(), 0);
    for (const std::vector<int>& line : lines_) {
      for (std::size_t i = 1; i < line.size(); ++i) {
        next[at(line[i - 1])].push_back(line[i]);
        ++before[at(line[i])];
      }
    }
    std::vector<int> free;
    for (std::size_t i = 0; i < before.size(); ++i) {
      if (before[i] == 0) free.push_back(static_cast<int>(i));
    }
    std::size_t done = 0;
    while (!free.empty()) {
      const int instance = free.back();
      free.pop_back();
      ++done;
      for (const int later : next[at(instance)]) {
        if (--before[at(later)] == 0) free.push_back(later);
      }
    }
    if (done < instances_.size()) report_circle(before);
  }

  // Follows what is stuck back along its predecessors until one is met again.
  void report_circle(const std::vector<int>& before) {
    std::vector<int> stuck_before(instances_.size(), -1), rank_of(instances_.size(), -1);
    for (std::size_t rank = 0; rank < lines_.size(); ++rank) {
      const std::vector<int>& line = lines_[rank];
      for (std::size_t i = 1; i < line.size(); ++i) {
        if (before[at(line[i - 1])] == 0 || before[at(line[i])] == 0) continue;
        stuck_before[at(line[i])] = line[i - 1];
        rank_of[at(line[i])] = static_cast<int>(rank);
      }
    }
    int one = 0;
    while (stuck_before[at(one)] < 0) ++one;
    std::vector<char> seen(instances_.size(), 0);
    for (; seen[at(one)] == 0; one = stuck_before[at(one)]) seen[at(one)] = 1;
    const int other = stuck_before[at(one)];
    const auto name = [&](int instance) {
      const auto& [rank, c] = instances_[at(instance)].second[0];
      return str("step ", c->step, " ", c->what);
    };
    found_.push_back(str("C5: circular wait: on rank ", rank_of[at(one)], " ", name(one),
                         " comes after ", name(other), ", on other ranks it comes before"));
  }

  void check_one_order() {
    for (std::size_t rank = 1; rank < ranks_.size(); ++rank) {
      const auto& a = ranks_[0];
      const auto& b = ranks_[rank];
      for (std::size_t i = 0; i < std::max(a.size(), b.size()); ++i) {
        const bool same = i < a.size() && i < b.size() && a[i].step == b[i].step &&
                          a[i].what == b[i].what && a[i].communicator == b[i].communicator;
        if (same) continue;
        const std::string none = "nothing more";
        found_.push_back(
            str("C6: collective ", i, ": ", i < a.size() ? text(0, a[i]) : str("rank 0 ", none),
                ", but ",
                i < b.size() ? text(static_cast<int>(rank), b[i]) : str("rank ", rank, " ", none)));
        return;
      }
    }
  }

  const std::vector<std::vector<IssuedCollective>>& ranks_;
  std::map<Instance, int> index_;
  std::vector<std::pair<Instance, std::vector<std::pair<int, const IssuedCollective*>>>> instances_;
  std::vector<std::vector<int>> lines_;  // by rank: instances in issue order
  std::vector<std::string> found_;
};

}  // namespace

std::vector<IssuedCollective> issued_by(const Plan& plan, int rank) {
  std::vector<std::vector<int>> members;
  for (const Axes& axes : plan.comms) members.push_back(plan.grid.group(rank, axes));
  std::vector<IssuedCollective> issued;
  int number = 0;
  for (const PlanFunc& func : plan.funcs) {
    for (const PlanStep& step : func.steps) {
      const int own = number++;
      if (step.fused() || !communicates(step.kind)) continue;
      const PlanValue& operand = func.values[at(step.operands[0])];
      issued.push_back({own,
                        str(op_word(step.kind, step.attrs), " %", operand.name,
                            attrs_text(step.attrs, step.kind, plan.grid), " of ",
                            to_text(operand.type, plan.grid)),
                        members[at(step.comm)], step.comm});
    }
  }
  return issued;
}

std::vector<std::string> check_order(const std::vector<std::vector<IssuedCollective>>& ranks) {
  return OrderChecker(ranks).run();
}

}  // namespace tessera
