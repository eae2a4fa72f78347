// Choosing a plan: the search over the logical module, what it prints, and what it leaves beside
// the plan for `tessera explain`.
#pragma once
#include <nlohmann/json.hpp>

#include "passes/search/search.h"
#include "tools/tessera/compile.h"

namespace tessera {

// Whether the flags leave the grid to the search.
bool searches_grid(const CompileFlags& flags);

// What the flags leave open. Throws CompileError when they contradict each other.
SearchSpace search_space(const CompileFlags& flags, const Machine& machine);

// At least one candidate. Throws CompileError when the devices cannot form a grid of the space.
SearchResult search_plans(const StepModel& model, const SearchSpace& space,
                          const CompileFlags& flags);

// The best candidates, and the best one of each named strategy.
void print_candidates(const SearchResult& result, const CompileFlags& flags,
                      const Machine& machine);
// The same as JSON.
nlohmann::json candidates_json(const SearchResult& result, const CompileFlags& flags,
                               const Machine& machine);

// The refusal when nothing fits: the least need, and what to change.
[[noreturn]] void refuse_to_fit(const StepModel& model, const SearchResult& result,
                                double memory_bytes, const Machine& machine);

}  // namespace tessera
