// The verifier: the sharding type checker. A module that passes is one whose distributed execution
// computes what its logical text says. It runs after every pass, in release builds too.
//
// Invariants (each has a failing case in test/filetest/errors):
//
// - V1 a value is defined before its uses, and belongs to the function that uses it
// - V2 an axis occurs at most once in a type, the partial part included
// - V3 logical types: dtype and sizes of results are those that the op infers; loops have one size
// - V4 levels: no shardings in Logical types and in Assigned ones but arguments', loop assignments
//   only in Assigned, no reshard in Scheduled
// - V5 a cut loop cuts every operand and result dimension that carries it, by the same axes in the
//   same order
// - V6 no axis cuts two loops of one op
// - V7 whole and expandable loops are not cut
// - V8 a cut loop missing from a result makes it partial over exactly those axes, with the op's
//   operator
// - V9 partials pass only where the op is linear: jointly, one at a time, or not at all
// - V10 collectives: gather, scatter, slice and move only the minor suffix; reduce exactly the
//   partial axes named
// - V11 state: a result that updates an argument has its type; arguments of one name agree over
//   functions
// - V12 results: outputs are never partial; names are unique
// - V13 axes exist in the grid; constants and weights that are named exist
// - V14 a collective that was begun (`.start`) has one use, the wait that ends it; only Scheduled
#pragma once
#include <vector>

#include "ir/base/diag.h"
#include "ir/graph.h"

namespace tessera {

std::vector<Diagnostic> verify(const Module& module);
// Throws CompileError with all violations as notes, if there are any. `after` names the stage:
// "after fuse_gelu".
void verify_or_throw(const Module& module, const std::string& after);

// The types that follow from operand types at level Sharded: cuts by loops, partial axes. `loops`
// says how loops that no operand carries are cut (iota, broadcast, scatter_add). Reports violations
// instead when there are any.
struct Derived {
  std::vector<Type> results;
  std::vector<std::string> problems;  // "V5: ..." texts
};
Derived derive_types(const Op& op, const Grid& grid);
// The same rule for collectives, from the operand's type and the attributes; a reshard gives its
// own result type.
Derived derive_collective(const Op& op, const Grid& grid);
// Cuts of each loop as the operands (and, for loops that only results carry, the results) have
// them.
LoopAxes loops_of(const Op& op, const IndexMap& map);

}  // namespace tessera
