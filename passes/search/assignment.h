// The assignment problem of a grid: which loops of each op the axes cut, so that compute and
// changes of sharding together cost least. One choice for each node; costs of nodes and of edges
// add up.
//
// `solve` eliminates one variable after the other, exactly, as long as the tables stay small; where
// they would not, it holds the best connected nodes at their present choice, solves the rest
// exactly, and begins again from there with others held, until nothing improves.
#pragma once
#include <string>
#include <vector>

#include "ir/graph.h"
#include "passes/cost/machine.h"

namespace tessera {

struct AssignmentNode {
  std::string name, op;           // of the first result
  std::vector<LoopAxes> choices;  // loops that are cut, by axes
  std::vector<double> seconds;    // by choice: compute, and what its arguments and results cost
  std::vector<double> bytes;      // by choice: what a rank holds of the results
  int present = 0;                // the choice that the layout has made
  Op* source = nullptr;
};

struct AssignmentEdge {
  int from = 0, to = 0;
  std::vector<double> seconds;  // [choice of from][choice of to]
};

struct AssignmentProblem {
  std::vector<AssignmentNode> nodes;
  std::vector<AssignmentEdge> edges;
};

struct Assignment {
  std::vector<int> choice;  // by node
  double seconds = 0;
  bool exact = true;  // no other assignment is cheaper
};

// Of the module's body (level Assigned, all ops with loops) on the module's grid. Every op may cut
// each of its loops by any axes; of ops with many choices the cheapest by themselves are kept.
AssignmentProblem assignment_problem(const Module& module, const Machine& machine);

double cost_of(const AssignmentProblem& problem, const std::vector<int>& choice);
Assignment solve(const AssignmentProblem& problem,
                 std::size_t largest_table = std::size_t{1} << 20);

// Nodes, choices and costs, the layout's assignment and the best known one, for any other solver.
std::string costs_json(const AssignmentProblem& problem, const Assignment& best, const Grid& grid);

}  // namespace tessera
