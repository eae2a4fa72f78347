// Choosing a grid: the search over the logical module, and what it prints.
#pragma once
#include <vector>

#include "passes/search/grid_search.h"
#include "tools/tessera/compile.h"

namespace tessera {

// Whether the flags leave the grid to the search.
bool searches_grid(const CompileFlags& flags);

// Candidates by expected time, those that fit first; at least one. Throws CompileError when the
// devices cannot form a grid.
std::vector<GridCandidate> grid_candidates(const Module& logical, const CompileFlags& flags,
                                           const Machine& machine);

// The best candidates, and the best one of each named strategy.
void print_candidates(const std::vector<GridCandidate>& candidates, const CompileFlags& flags,
                      const Machine& machine);

// The refusal when nothing fits: the least need, and what to change.
[[noreturn]] void refuse_to_fit(const std::vector<GridCandidate>& candidates,
                                const Machine& machine);

}  // namespace tessera
