// How an op takes its operands and makes its results when its loops are cut: what both models of
// the search (step_model.h, assignment.h) price.
#pragma once
#include "ir/graph.h"
#include "passes/cost/op_cost.h"

namespace tessera {

// `logical`: the operand's; cut as `term`'s loops are, without partial sums.
Type need_type(const Type& logical, const std::string& term, const LoopAxes& loops);

// Partial over the axes of loops that the result lacks. Row ops have their own statistics reduced
// inside and leave nothing partial.
Type made_type(OpKind kind, const Type& logical, const std::string& term, const LoopAxes& loops);

// Row ops whose rows are cut all-reduce a few numbers a row: the axes (none: no statistics) and
// what one such number a row takes, as a type.
struct RowStatistics {
  Axes over;
  Type rows;
};
RowStatistics row_statistics(const Type& made, const IndexMap& map, const LoopAxes& loops);

// op_seconds, but for elementwise ops: a chain of them is one loop, each pays for what it leaves.
double step_op_seconds(const Machine& machine, const Grid& grid, const OpView& op);

}  // namespace tessera
