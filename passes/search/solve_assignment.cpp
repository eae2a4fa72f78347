#include <algorithm>
#include <limits>
#include <set>

#include "ir/base/check.h"
#include "ir/base/random.h"
#include "passes/search/assignment.h"

namespace tessera {
namespace {

// A table over some variables, the last one fastest.
struct Factor {
  std::vector<int> vars;
  std::vector<double> table;
};

class Eliminator {
 public:
  // `round` varies which of the well connected nodes are held.
  Eliminator(const AssignmentProblem& problem, const std::vector<int>& start, std::size_t limit,
             int round)
      : problem_(problem), limit_(limit), round_(round) {
    result_.choice = start;
    alive_.assign(problem.nodes.size(), true);
    for (std::size_t v = 0; v < problem.nodes.size(); ++v)
      factors_.push_back({{static_cast<int>(v)}, problem.nodes[v].seconds});
    for (const AssignmentEdge& edge : problem.edges) {
      TESSERA_CHECK(edge.from != edge.to, "an op does not read its own result");
      factors_.push_back({{edge.from, edge.to}, edge.seconds});
    }
  }

  Assignment run() {
    for (std::size_t left = problem_.nodes.size(); left > 0; --left) {
      const auto [var, size] = cheapest();
      if (size <= limit_) {
        eliminate(var);
      } else {
        hold(best_connected());
      }
    }
    // Backwards: what comes later in the order is known by then.
    for (auto it = eliminated_.rbegin(); it != eliminated_.rend(); ++it)
      result_.choice[static_cast<std::size_t>(it->var)] = it->best[index_of(it->vars)];
    result_.seconds = cost_of(problem_, result_.choice);
    return result_;
  }

 private:
  struct Eliminated {
    int var;
    std::vector<int> vars;  // it depends on
    std::vector<int> best;  // by their choices
  };

  std::size_t choices(int var) const {
    return problem_.nodes[static_cast<std::size_t>(var)].choices.size();
  }
  bool reads(const Factor& factor, int var) const {
    return std::ranges::find(factor.vars, var) != factor.vars.end();
  }

  std::vector<int> neighbours(int var) const {
    std::set<int> found;
    for (const Factor& factor : factors_) {
      if (reads(factor, var)) found.insert(factor.vars.begin(), factor.vars.end());
    }
    found.erase(var);
    return {found.begin(), found.end()};
  }

  // The variable whose elimination makes the smallest table, and the work that it is.
  std::pair<int, std::size_t> cheapest() const {
    int best = -1;
    std::size_t least = std::numeric_limits<std::size_t>::max();
    for (std::size_t v = 0; v < alive_.size(); ++v) {
      if (!alive_[v]) continue;
      std::size_t size = choices(static_cast<int>(v));
      for (const int other : neighbours(static_cast<int>(v)))
        size = size > limit_ ? size : size * choices(other);
      if (best < 0 || size < least) {
        best = static_cast<int>(v);
        least = size;
      }
    }
    return {best, least};
  }

  int best_connected() const {
    int best = -1;
    double most = 0;
    for (std::size_t v = 0; v < alive_.size(); ++v) {
      if (!alive_[v]) continue;
      const double chance =
          round_ == 0
              ? 0
              : static_cast<double>(random_bits(static_cast<std::uint64_t>(round_), v, 0) % 1000) /
                    1000;
      const double degree =
          static_cast<double>(neighbours(static_cast<int>(v)).size()) * (1 + chance);
      if (best < 0 || degree > most) {
        best = static_cast<int>(v);
        most = degree;
      }
    }
    return best;
  }

  std::size_t index_of(const std::vector<int>& vars) const {
    std::size_t index = 0;
    for (const int var : vars)
      index = index * choices(var) +
              static_cast<std::size_t>(result_.choice[static_cast<std::size_t>(var)]);
    return index;
  }

  std::vector<Factor> take(int var) {
    std::vector<Factor> taken;
    for (std::size_t i = 0; i < factors_.size();) {
      if (!reads(factors_[i], var)) {
        ++i;
        continue;
      }
      taken.push_back(std::move(factors_[i]));
      factors_[i] = std::move(factors_.back());
      factors_.pop_back();
    }
    alive_[static_cast<std::size_t>(var)] = false;
    return taken;
  }

  void eliminate(int var) {
    Eliminated gone{var, neighbours(var), {}};
    const std::vector<Factor> taken = take(var);
    std::size_t size = 1;
    for (const int other : gone.vars) size *= choices(other);
    Factor made{gone.vars, std::vector<double>(size)};
    gone.best.resize(size);
    // result_.choice holds the combination at hand; it is restored for nodes that are held.
    const std::vector<int> before = result_.choice;
    for (std::size_t at = 0; at < size; ++at) {
      std::size_t rest = at;
      for (std::size_t i = gone.vars.size(); i-- > 0;) {
        result_.choice[static_cast<std::size_t>(gone.vars[i])] =
            static_cast<int>(rest % choices(gone.vars[i]));
        rest /= choices(gone.vars[i]);
      }
      double least = std::numeric_limits<double>::infinity();
      for (std::size_t c = 0; c < choices(var); ++c) {
        result_.choice[static_cast<std::size_t>(var)] = static_cast<int>(c);
        double total = 0;
        for (const Factor& factor : taken) total += factor.table[index_of(factor.vars)];
        if (total < least) {
          least = total;
          gone.best[at] = static_cast<int>(c);
        }
      }
      made.table[at] = least;
    }
    result_.choice = before;
    if (!made.vars.empty()) factors_.push_back(std::move(made));
    eliminated_.push_back(std::move(gone));
  }

  // Fixes a variable at its present choice: factors lose it.
  void hold(int var) {
    result_.exact = false;
    const auto fixed = static_cast<std::size_t>(result_.choice[static_cast<std::size_t>(var)]);
    for (const Factor& factor : take(var)) {
      const auto at =
          static_cast<std::size_t>(std::ranges::find(factor.vars, var) - factor.vars.begin());
      std::size_t inner = 1;
      for (std::size_t i = at + 1; i < factor.vars.size(); ++i) inner *= choices(factor.vars[i]);
      Factor sliced{factor.vars, {}};
      sliced.vars.erase(sliced.vars.begin() + static_cast<std::ptrdiff_t>(at));
      if (sliced.vars.empty()) continue;
      const std::size_t outer = factor.table.size() / inner / choices(var);
      for (std::size_t o = 0; o < outer; ++o) {
        for (std::size_t i = 0; i < inner; ++i)
          sliced.table.push_back(factor.table[(o * choices(var) + fixed) * inner + i]);
      }
      factors_.push_back(std::move(sliced));
    }
  }

  const AssignmentProblem& problem_;
  std::size_t limit_;
  int round_;
  std::vector<Factor> factors_;
  std::vector<char> alive_;
  std::vector<Eliminated> eliminated_;
  Assignment result_;
};

}  // namespace

double cost_of(const AssignmentProblem& problem, const std::vector<int>& choice) {
  double total = 0;
  for (std::size_t v = 0; v < problem.nodes.size(); ++v)
    total += problem.nodes[v].seconds[static_cast<std::size_t>(choice[v])];
  for (const AssignmentEdge& edge : problem.edges) {
    const auto from = static_cast<std::size_t>(choice[static_cast<std::size_t>(edge.from)]);
    const auto to = static_cast<std::size_t>(choice[static_cast<std::size_t>(edge.to)]);
    const std::size_t width = problem.nodes[static_cast<std::size_t>(edge.to)].choices.size();
    total += edge.seconds[from * width + to];
  }
  return total;
}

Assignment solve(const AssignmentProblem& problem, std::size_t largest_table) {
  constexpr int kRounds = 60, kPatience = 12;
  constexpr double kImproves = 1 - 1e-9;
  Assignment best;
  for (const AssignmentNode& node : problem.nodes) best.choice.push_back(node.present);
  best.seconds = cost_of(problem, best.choice);
  best.exact = false;
  for (int round = 0, idle = 0; round < kRounds && idle < kPatience && !best.exact; ++round) {
    Assignment next = Eliminator(problem, best.choice, largest_table, round).run();
    idle = next.seconds < kImproves * best.seconds ? 0 : idle + 1;
    if (next.exact || next.seconds < best.seconds) best = std::move(next);
  }
  return best;
}

}  // namespace tessera
