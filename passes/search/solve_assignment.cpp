#include <algorithm>
#include <limits>
#include <numeric>

#include "ir/base/random.h"
#include "passes/search/assignment.h"
#include "passes/search/elimination.h"

namespace tessera {
namespace {

using Choices = std::vector<int>;
using Domains = std::vector<std::vector<int>>;  // choices that a node may take, by node

std::size_t at(int index) { return static_cast<std::size_t>(index); }

// The term with its nodes' choices restricted to their domains; each node once.
Factor restricted(const AssignmentTerm& term, const Domains& domains) {
  Factor factor;
  for (const AssignmentTerm::Slot& slot : term.slots) factor.vars.push_back(slot.node);
  std::ranges::sort(factor.vars);
  factor.vars.erase(std::unique(factor.vars.begin(), factor.vars.end()), factor.vars.end());
  // What one node's value adds to the index into the term's table.
  std::vector<std::vector<std::size_t>> index(factor.vars.size());
  std::size_t total = 1;
  for (std::size_t v = 0; v < factor.vars.size(); ++v) {
    const std::vector<int>& domain = domains[at(factor.vars[v])];
    index[v].assign(domain.size(), 0);
    total *= domain.size();
    std::size_t stride = 1;
    for (std::size_t s = term.slots.size(); s-- > 0;) {
      const AssignmentTerm::Slot& slot = term.slots[s];
      for (std::size_t i = 0; i < domain.size() && slot.node == factor.vars[v]; ++i)
        index[v][i] += stride * at(slot.rows[at(domain[i])]);
      stride *= at(slot.row_count);
    }
  }
  factor.table.reserve(total);
  std::vector<std::size_t> value(factor.vars.size(), 0);
  for (std::size_t i = 0; i < total; ++i) {
    std::size_t entry = 0;
    for (std::size_t v = 0; v < value.size(); ++v) entry += index[v][value[v]];
    factor.table.push_back(term.seconds[entry]);
    for (std::size_t v = value.size(); v-- > 0;) {
      if (++value[v] < index[v].size()) break;
      value[v] = 0;
    }
  }
  return factor;
}

class Solver {
 public:
  Solver(const AssignmentProblem& problem, std::size_t limit, unsigned patience)
      : problem_(problem), limit_(limit), patience_(patience) {
    terms_of_.resize(problem.nodes.size());
    for (const AssignmentTerm& term : problem.terms) {
      for (const AssignmentTerm::Slot& slot : term.slots) {
        std::vector<const AssignmentTerm*>& known = terms_of_[at(slot.node)];
        if (known.empty() || known.back() != &term) known.push_back(&term);
      }
    }
  }

  Assignment run() {
    constexpr unsigned kRounds = 300, kFull = 4;
    constexpr double kImproves = 1 - 1e-9;
    Assignment best{layout_of(problem_), 0, false};
    best.seconds = cost_of(problem_, best.choice);
    if (solve_exactly(best)) return best;
    for (unsigned round = 0, idle = 0; round < kRounds && idle < patience_; ++round) {
      Assignment next =
          improved(round % kFull == 0 ? around(best.choice) : blend(best.choice, round), round);
      idle = next.seconds < kImproves * best.seconds ? 0 : idle + 1;
      if (next.seconds < best.seconds) best = std::move(next);
    }
    return best;
  }

 private:
  Elimination restricted_to(const Domains& domains) const {
    Elimination made;
    made.limit = limit_;
    for (std::size_t v = 0; v < domains.size(); ++v) {
      made.sizes.push_back(static_cast<int>(domains[v].size()));
      Factor own{{static_cast<int>(v)}, {}};
      for (const int choice : domains[v])
        own.table.push_back(problem_.nodes[v].seconds[at(choice)]);
      made.factors.push_back(std::move(own));
    }
    for (const AssignmentTerm& term : problem_.terms)
      made.factors.push_back(restricted(term, domains));
    return made;
  }

  Assignment solved(const Domains& domains, const Elimination& restricted, unsigned seed) const {
    Assignment found;
    const std::vector<int> value = eliminate(restricted, seed, found.exact);
    for (std::size_t v = 0; v < value.size(); ++v) found.choice.push_back(domains[v][at(value[v])]);
    found.seconds = cost_of(problem_, found.choice);
    return found;
  }

  Assignment improved(const Domains& domains, unsigned seed) const {
    Assignment found = solved(domains, restricted_to(domains), seed);
    found.exact = false;  // of all choices
    return found;
  }

  bool solve_exactly(Assignment& best) const {
    Domains all;
    Elimination shape{{}, {}, limit_};  // tables are made only if they will do
    for (const AssignmentNode& node : problem_.nodes) {
      all.emplace_back(node.choices.size());
      std::iota(all.back().begin(), all.back().end(), 0);
      shape.sizes.push_back(static_cast<int>(node.choices.size()));
    }
    for (const AssignmentTerm& term : problem_.terms) {
      shape.factors.emplace_back();
      for (const AssignmentTerm::Slot& slot : term.slots)
        shape.factors.back().vars.push_back(slot.node);
    }
    if (!can_be_exact(shape)) return false;
    best = solved(all, restricted_to(all), 0);
    return true;
  }

  // What a choice of a node costs next to the choices of others; negative choices are open.
  double conditional(std::size_t node, int choice, Choices& others) const {
    double total = problem_.nodes[node].seconds[at(choice)];
    const int before = others[node];
    others[node] = choice;
    for (const AssignmentTerm* term : terms_of_[node]) {
      const bool known = std::ranges::all_of(
          term->slots, [&](const AssignmentTerm::Slot& s) { return others[at(s.node)] >= 0; });
      if (known) total += cost_of(*term, others);
    }
    others[node] = before;
    return total;
  }

  std::vector<double> conditionals(std::size_t node, Choices& others) const {
    std::vector<double> costs;
    for (std::size_t c = 0; c < problem_.nodes[node].choices.size(); ++c)
      costs.push_back(conditional(node, static_cast<int>(c), others));
    return costs;
  }

  // An assignment that grows from one node at a random choice: neighbours take what is best next to
  // those that have chosen.
  Choices grown(unsigned round, unsigned number) const {
    const std::size_t count = problem_.nodes.size();
    const std::uint64_t stream = std::uint64_t{round} * 16 + number;
    const auto random = [&](std::uint64_t i) { return random_bits(17, stream, i); };
    Choices choice(count, -1);
    std::vector<std::size_t> border{random(0) % count};
    std::vector<char> seen(count, 0);
    seen[border[0]] = 1;
    for (std::size_t chosen = 0, next = 0; chosen < count; ++chosen) {
      if (border.empty()) {  // not connected to what is done
        while (seen[next] != 0) ++next;
        border.push_back(next);
        seen[next] = 1;
      }
      const std::size_t pick = random(chosen + 1) % border.size();
      const std::size_t node = border[pick];
      border[pick] = border.back();
      border.pop_back();
      const std::vector<double> costs = conditionals(node, choice);
      choice[node] = chosen == 0
                         ? static_cast<int>(random(count + 1) % costs.size())
                         : static_cast<int>(std::ranges::min_element(costs) - costs.begin());
      for (const AssignmentTerm* term : terms_of_[node]) {
        for (const AssignmentTerm::Slot& slot : term->slots) {
          if (seen[at(slot.node)] != 0) continue;
          seen[at(slot.node)] = 1;
          border.push_back(at(slot.node));
        }
      }
    }
    return choice;
  }

  // All choices of every node, the known one first: where tables would be too large, it stays.
  Domains around(const Choices& best) const {
    Domains domains;
    for (std::size_t v = 0; v < best.size(); ++v) {
      domains.emplace_back(problem_.nodes[v].choices.size());
      std::iota(domains.back().begin(), domains.back().end(), 0);
      std::rotate(domains.back().begin(), domains.back().begin() + best[v],
                  domains.back().begin() + best[v] + 1);
    }
    return domains;
  }

  // The known assignment's choices, single changes of it and a few grown assignments.
  Domains blend(const Choices& best, unsigned round) const {
    constexpr unsigned kGrown = 3;
    constexpr std::size_t kSingle = 3;
    Domains domains(best.size());
    const auto offer = [&](std::size_t node, int choice) {
      if (std::ranges::find(domains[node], choice) == domains[node].end())
        domains[node].push_back(choice);
    };
    for (std::size_t v = 0; v < best.size(); ++v) offer(v, best[v]);
    for (unsigned i = 0; i < kGrown; ++i) {
      const Choices other = grown(round, i);
      for (std::size_t v = 0; v < best.size(); ++v) offer(v, other[v]);
    }
    Choices now = best;
    for (std::size_t v = 0; v < best.size(); ++v) {
      std::vector<double> costs = conditionals(v, now);
      for (std::size_t i = 0; i < kSingle; ++i) {
        const auto least = std::ranges::min_element(costs);
        offer(v, static_cast<int>(least - costs.begin()));
        *least = std::numeric_limits<double>::infinity();
      }
    }
    return domains;
  }

  const AssignmentProblem& problem_;
  std::size_t limit_;
  unsigned patience_;
  std::vector<std::vector<const AssignmentTerm*>> terms_of_;
};

}  // namespace

double cost_of(const AssignmentTerm& term, const std::vector<int>& choice) {
  std::size_t index = 0;
  for (const AssignmentTerm::Slot& slot : term.slots)
    index = index * at(slot.row_count) + at(slot.rows[at(choice[at(slot.node)])]);
  return term.seconds[index];
}

double cost_of(const AssignmentProblem& problem, const std::vector<int>& choice) {
  double total = 0;
  for (std::size_t v = 0; v < problem.nodes.size(); ++v)
    total += problem.nodes[v].seconds[at(choice[v])];
  for (const AssignmentTerm& term : problem.terms) total += cost_of(term, choice);
  return total;
}

double bytes_of(const AssignmentProblem& problem, const std::vector<int>& choice) {
  double total = 0;
  for (std::size_t v = 0; v < problem.nodes.size(); ++v)
    total += problem.nodes[v].bytes[at(choice[v])];
  return total;
}

std::vector<int> layout_of(const AssignmentProblem& problem) {
  std::vector<int> layout;
  for (const AssignmentNode& node : problem.nodes) layout.push_back(node.present);
  return layout;
}

Assignment solve(const AssignmentProblem& problem, std::size_t largest_table, unsigned patience) {
  return Solver(problem, largest_table, patience).run();
}

Assignment solve_within(const AssignmentProblem& problem, double more_bytes,
                        std::size_t largest_table, unsigned patience) {
  constexpr int kPrices = 5;
  const std::vector<int> layout = layout_of(problem);
  const double before = cost_of(problem, layout), held = bytes_of(problem, layout);
  AssignmentProblem priced = problem;
  Assignment best = solve(problem, largest_table, patience);
  double price = 0;  // seconds a byte; at first what the bytes have bought
  for (int i = 0; i < kPrices && bytes_of(problem, best.choice) > held + more_bytes; ++i) {
    const double bought = (before - best.seconds) / (bytes_of(problem, best.choice) - held);
    price = std::max(2 * price, bought);
    for (std::size_t v = 0; v < problem.nodes.size(); ++v) {
      for (std::size_t c = 0; c < problem.nodes[v].bytes.size(); ++c)
        priced.nodes[v].seconds[c] =
            problem.nodes[v].seconds[c] + price * problem.nodes[v].bytes[c];
    }
    best = solve(priced, largest_table, patience);
    best.seconds = cost_of(problem, best.choice);
    best.exact = false;
  }
  const bool good = best.seconds < before && bytes_of(problem, best.choice) <= held + more_bytes;
  return good ? best : Assignment{layout, before, false};
}

}  // namespace tessera
