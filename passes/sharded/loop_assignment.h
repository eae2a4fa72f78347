// Turns axes per dimension class into a loop assignment of one op, and says who wins when two loops
// want one axis.
#pragma once
#include <map>

#include "passes/sharded/dim_classes.h"

namespace tessera {

using ClassAxes = std::map<ClassId, Axes>;

// Each loop takes the axes it wants, unless an earlier loop took one of them. Loops with more axes
// go first (the vocabulary before the hidden dimension), then loops of the first result, then the
// others. Whole loops get none. In the end, loops that got all they want take of their `spare` axes
// what no loop of this op uses.
LoopAxes resolve_loops(const IndexMap& map, const LoopAxes& wanted, const LoopAxes& spare = {});
// The same with what the classes of the op's loops want.
LoopAxes assign_loops(const Op& op, const IndexMap& map, const DimClasses& classes,
                      const ClassAxes& axes, const ClassAxes& spare = {});

// Cuts of a term ("mk") under a loop assignment.
std::vector<Axes> cuts_of(const std::string& term, const LoopAxes& loops);

}  // namespace tessera
