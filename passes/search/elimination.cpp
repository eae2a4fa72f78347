#include "passes/search/elimination.h"

#include <algorithm>
#include <limits>
#include <set>

#include "ir/base/random.h"

namespace tessera {
namespace {

// Which variables share a factor, while variables go.
class Graph {
 public:
  explicit Graph(const Elimination& problem)
      : sizes_(problem.sizes), limit_(problem.limit), near_(problem.sizes.size()) {
    for (const Factor& factor : problem.factors) join(factor.vars);
    for (std::size_t v = 0; v < near_.size(); ++v) alive_.push_back(static_cast<int>(v));
  }

  bool empty() const { return alive_.empty(); }
  std::vector<int> near(int var) const {
    const std::set<int>& found = near_[static_cast<std::size_t>(var)];
    return {found.begin(), found.end()};
  }

  // The variable whose elimination takes the fewest additions, and how many; beyond the limit they
  // are not counted on.
  std::pair<int, std::size_t> cheapest() const {
    int best = -1;
    std::size_t least = std::numeric_limits<std::size_t>::max();
    for (const int var : alive_) {
      std::size_t work = size(var);
      for (const int other : near_[static_cast<std::size_t>(var)])
        work = work > limit_ ? work : work * size(other);
      if (work < least) {
        best = var;
        least = work;
      }
    }
    return {best, least};
  }

  int best_connected(unsigned seed) const {
    int best = -1;
    double most = 0;
    for (const int var : alive_) {
      const auto v = static_cast<std::uint64_t>(var);
      const double chance =
          seed == 0 ? 0 : static_cast<double>(random_bits(seed, v, 0) % 1000) / 1000;
      const double degree =
          static_cast<double>(near_[static_cast<std::size_t>(var)].size()) * (1 + chance);
      if (best < 0 || degree > most) {
        best = var;
        most = degree;
      }
    }
    return best;
  }

  // `joins`: its neighbours become neighbours of each other.
  void remove(int var, bool joins) {
    const std::vector<int> others = near(var);
    for (const int other : others) near_[static_cast<std::size_t>(other)].erase(var);
    if (joins) join(others);
    std::erase(alive_, var);
  }

 private:
  std::size_t size(int var) const {
    return static_cast<std::size_t>(sizes_[static_cast<std::size_t>(var)]);
  }
  void join(const std::vector<int>& vars) {
    for (const int a : vars) {
      for (const int b : vars) {
        if (a != b) near_[static_cast<std::size_t>(a)].insert(b);
      }
    }
  }

  const std::vector<int>& sizes_;
  std::size_t limit_;
  std::vector<std::set<int>> near_;
  std::vector<int> alive_;
};

class Eliminator {
 public:
  Eliminator(Elimination problem, unsigned seed) : problem_(std::move(problem)), seed_(seed) {}

  std::vector<int> run(bool& exact) {
    Graph graph(problem_);
    exact = true;
    while (!graph.empty()) {
      const auto [var, work] = graph.cheapest();
      if (work <= problem_.limit) {
        minimize(var, graph.near(var));
        graph.remove(var, true);
      } else {
        const int held = graph.best_connected(seed_);
        hold(held);
        graph.remove(held, false);
        exact = false;
      }
    }
    // Backwards: what comes later in the order is known by then.
    std::vector<int> value(problem_.sizes.size(), 0);
    for (auto it = gone_.rbegin(); it != gone_.rend(); ++it) {
      std::size_t at = 0;
      for (const int other : it->vars)
        at = at * size(other) + static_cast<std::size_t>(value[static_cast<std::size_t>(other)]);
      value[static_cast<std::size_t>(it->var)] = it->best[at];
    }
    return value;
  }

 private:
  struct Gone {
    int var;
    std::vector<int> vars;  // it depends on
    std::vector<int> best;  // by their values
  };

  std::size_t size(int var) const {
    return static_cast<std::size_t>(problem_.sizes[static_cast<std::size_t>(var)]);
  }

  // How far apart entries of a factor lie whose value of `var` differs by one; 0: it has no such.
  std::size_t stride(const Factor& factor, int var) const {
    std::size_t step = 1;
    for (std::size_t i = factor.vars.size(); i-- > 0;) {
      if (factor.vars[i] == var) return step;
      step *= size(factor.vars[i]);
    }
    return 0;
  }

  std::vector<Factor> take(int var) {
    const auto keeps = [&](const Factor& f) {
      return std::ranges::find(f.vars, var) == f.vars.end();
    };
    const auto middle =
        std::stable_partition(problem_.factors.begin(), problem_.factors.end(), keeps);
    std::vector<Factor> taken(std::make_move_iterator(middle),
                              std::make_move_iterator(problem_.factors.end()));
    problem_.factors.erase(middle, problem_.factors.end());
    return taken;
  }

  void minimize(int var, const std::vector<int>& others) {
    const std::vector<Factor> taken = take(var);
    std::size_t total = 1;
    for (const int other : others) total *= size(other);
    Gone gone{var, others, std::vector<int>(total)};
    Factor made{others, std::vector<double>(total)};
    std::vector<std::size_t> at(others.size(), 0), offset(taken.size(), 0), step;
    std::vector<std::vector<std::size_t>> strides;
    for (const Factor& factor : taken) {
      step.push_back(stride(factor, var));
      strides.emplace_back();
      for (const int other : others) strides.back().push_back(stride(factor, other));
    }
    std::vector<double> sums(size(var));
    for (std::size_t i = 0; i < total; ++i) {
      std::ranges::fill(sums, 0.0);
      for (std::size_t f = 0; f < taken.size(); ++f) {
        const double* entry = taken[f].table.data() + offset[f];
        for (double& sum : sums) {
          sum += *entry;
          entry += step[f];
        }
      }
      const auto least = std::ranges::min_element(sums);
      made.table[i] = *least;
      gone.best[i] = static_cast<int>(least - sums.begin());
      for (std::size_t d = others.size(); d-- > 0;) {
        const bool wraps = ++at[d] == size(others[d]);
        for (std::size_t f = 0; f < taken.size(); ++f) {
          if (wraps) {
            offset[f] -= strides[f][d] * (size(others[d]) - 1);
          } else {
            offset[f] += strides[f][d];
          }
        }
        if (!wraps) break;
        at[d] = 0;
      }
    }
    if (!made.vars.empty()) problem_.factors.push_back(std::move(made));
    gone_.push_back(std::move(gone));
  }

  // Fixes a variable at value 0: factors lose it.
  void hold(int var) {
    for (const Factor& factor : take(var)) {
      const std::size_t inner = stride(factor, var), block = inner * size(var);
      Factor sliced{factor.vars, {}};
      std::erase(sliced.vars, var);
      if (sliced.vars.empty()) continue;
      for (std::size_t at = 0; at < factor.table.size(); at += block) {
        const auto begin = factor.table.begin() + static_cast<std::ptrdiff_t>(at);
        sliced.table.insert(sliced.table.end(), begin, begin + static_cast<std::ptrdiff_t>(inner));
      }
      problem_.factors.push_back(std::move(sliced));
    }
  }

  Elimination problem_;
  unsigned seed_;
  std::vector<Gone> gone_;
};

}  // namespace

bool can_be_exact(const Elimination& problem) {
  Graph graph(problem);
  while (!graph.empty()) {
    const auto [var, work] = graph.cheapest();
    if (work > problem.limit) return false;
    graph.remove(var, true);
  }
  return true;
}

std::vector<int> eliminate(Elimination problem, unsigned seed, bool& exact) {
  return Eliminator(std::move(problem), seed).run(exact);
}

}  // namespace tessera
