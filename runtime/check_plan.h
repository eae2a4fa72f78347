// Static checks of a plan: what must hold before anything runs, whatever made it. A plan without
// findings has no races on its streams, no buffer that is reused too early, and one order of
// collectives on all ranks.
#pragma once
#include <string>
#include <vector>

#include "runtime/plan.h"

namespace tessera {

// What is wrong, with the steps concerned; empty if nothing is. Checked are, in each function:
//
// - C1 every collective names a communicator over its own axes; all collectives of a communicator
//   are on one stream, where they run in the plan's order
// - C2 edges lead back in the list, and every step is waited for before the function ends
// - C3 no two steps that edges leave unordered touch the same bytes, one of them writing; a
//   collective touches its bytes until it is waited for
// - C4 a step reads what the plan says it reads: nothing else was written over its operands;
// results
//   lie over operands only where the kernel goes element by element
std::vector<std::string> check_plan(const Plan& plan);

// Throws InternalError with the first findings: for compilers.
void check_plan_or_throw(const Plan& plan);

// One collective as one rank issues it.
struct IssuedCollective {
  int step = 0;      // of all functions' steps, counted on
  std::string what;  // op, value, dtype and global type, reduce operator
  std::vector<int> members;
  int communicator = 0;
};
// In the order in which the rank's thread issues them.
std::vector<IssuedCollective> issued_by(const Plan& plan, int rank);

// - C5 the members of a communicator issue the same collectives over it in the same order, and the
//   orders of all ranks fit together when a device runs one collective at a time (no circular wait)
// - C6 all ranks issue one order
// `ranks`: what each rank issues. Names the two collectives that conflict.
std::vector<std::string> check_order(const std::vector<std::vector<IssuedCollective>>& ranks);

}  // namespace tessera
