// Exact minimization of a sum of tables over discrete variables, by eliminating one variable after
// the other (bucket elimination; Dechter, Artificial Intelligence 1999). Internal to passes/search.
#pragma once
#include <cstddef>
#include <vector>

namespace tessera {

// A table over distinct variables, the last one fastest.
struct Factor {
  std::vector<int> vars;
  std::vector<double> table;
};

struct Elimination {
  std::vector<int> sizes;  // of each variable's domain
  std::vector<Factor> factors;
  std::size_t limit = 0;  // additions that eliminating one variable may take
};

// Whether the limit lets every variable be eliminated.
bool can_be_exact(const Elimination& problem);

// The best value of each variable. Where the limit forbids it, a well connected variable is held at
// value 0; `seed` varies which.
std::vector<int> eliminate(Elimination problem, unsigned seed, bool& exact);

}  // namespace tessera
