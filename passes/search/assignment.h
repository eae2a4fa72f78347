// The assignment problem of a grid: which loops of each op the axes cut, so that compute and
// changes of sharding together cost least. One choice for each node; costs of nodes and of terms
// over a few of them add up.
//
// Layers repeat: ops that repeat each other (repeated_ops.h) are one node, so that they choose
// alike, and a model of 96 layers is a problem of one.
//
// `solve` eliminates one variable after the other, exactly, as long as the tables stay small. Where
// they would not, it blends assignments: each round gives every node a handful of choices (the best
// known one, the best by its neighbours, those of a few randomly grown assignments) and finds the
// best combination of them (fusion moves of Lempitsky et al., TPAMI 2010, with several proposals).
#pragma once
#include <string>
#include <vector>

#include "ir/graph.h"
#include "passes/cost/machine.h"
#include "passes/pass.h"

namespace tessera {

struct AssignmentNode {
  std::string name, op;           // of the first op's first result
  std::vector<LoopAxes> choices;  // loops that are cut, by axes
  std::vector<double> seconds;    // by choice: compute, and what its arguments and results cost
  std::vector<double> bytes;  // by choice: what a rank keeps of the results for the backward pass
  int present = 0;            // the choice that the layout has made
  std::vector<Op*> ops;       // all that repeat the first
};

// What a change of sharding between two ops costs, or what a third one saves because it finds the
// version that the second needed. Many choices give one type, so the table is over types.
struct AssignmentTerm {
  struct Slot {
    int node = 0;           // one node may stand in several slots
    std::vector<int> rows;  // by choice: the row of the table
    int row_count = 0;
  };
  std::vector<Slot> slots;
  std::vector<double> seconds;  // by rows, the last slot's fastest; may be negative
};

struct AssignmentProblem {
  std::vector<AssignmentNode> nodes;
  std::vector<AssignmentTerm> terms;
};

struct Assignment {
  std::vector<int> choice;  // by node
  double seconds = 0;
  bool exact = true;  // no other assignment is cheaper
};

// Of the module's body (level Assigned, all ops with loops) on the module's grid. Every op may cut
// each of its loops by any axes; of ops with many choices the cheapest by themselves are kept.
// Of the options, regather counts (the backward pass does not find what the forward pass has
// gathered) and so do pins: pinned ops have no other choice. `most_choices` of a node are kept:
// paths between types, which take most of the time, grow with its square.
AssignmentProblem assignment_problem(const Module& module, const Machine& machine,
                                     const PassOptions& options, std::size_t most_choices = 24);

double cost_of(const AssignmentProblem& problem, const std::vector<int>& choice);
double cost_of(const AssignmentTerm& term, const std::vector<int>& choice);
double bytes_of(const AssignmentProblem& problem, const std::vector<int>& choice);
std::vector<int> layout_of(const AssignmentProblem& problem);  // the present choices
// `largest_table`: additions that eliminating one variable may take; `patience`: rounds without
// improvement. The same input gives the same assignment.
Assignment solve(const AssignmentProblem& problem, std::size_t largest_table = std::size_t{1} << 18,
                 unsigned patience = 40);

// The same where at most `more_bytes` more than by the layout may be kept: memory gets a price,
// which rises until they suffice (Lagrangian relaxation). In the end the layout itself.
Assignment solve_within(const AssignmentProblem& problem, double more_bytes,
                        std::size_t largest_table, unsigned patience);

// Nodes, choices and costs, the layout's assignment and the best known one, for any other solver.
std::string costs_json(const AssignmentProblem& problem, const Assignment& best, const Grid& grid);

}  // namespace tessera
