// What GridModel keeps of a module: op and value kinds with counts. Internal to passes/search.
#pragma once
#include <map>
#include <vector>

#include "ir/graph.h"
#include "passes/cost/machine.h"
#include "passes/sharded/layout.h"

namespace tessera {

// What cuts a dimension: nothing, the batch, one of the two colours, both for a vocabulary, or a
// colour's share of grouped heads.
struct Role {
  enum Kind : std::uint8_t { None, Batch, X, Y, Vocabulary, Groups, Queries } kind = None;
  Color color = Color::X;                // of heads
  std::int64_t groups = 1, queries = 1;  // of heads
  auto operator<=>(const Role&) const = default;
};

// Values of one type whose dimensions have the same roles are priced alike.
struct ValueKind {
  Type type;  // logical
  std::vector<Role> roles;
  bool stored = false;       // a parameter or its state: cut over z as well
  bool accumulated = false;  // and a sum over micro-batches that is not yet reduced over data
};

struct DistinctOp {
  OpKind kind;
  AttrList attrs;
  IndexMap map;
  std::vector<int> operands, results;  // value kinds
  std::vector<char> fresh;  // operands that no earlier op needed in this way: the first reader pays
  std::vector<std::pair<char, Role>> loops;
  bool follows = false;  // works on its operands as they are stored
  double count = 0;
};

// Where a value of @micro lives, in positions of its op list.
struct Life {
  int kind = 0;
  int from = 0, to = 0;
};

struct GridModelData {
  Machine machine;
  std::int64_t micro_batches = 1, batch = 1;
  std::vector<ValueKind> kinds;
  std::vector<DistinctOp> ops;
  std::vector<Life> lives;
  std::vector<std::pair<int, double>> states;  // (value kind, how many)
  int length = 0;                              // ops of @micro
};

// Ops that look alike (kind, attributes, kinds of their values) become one with a count.
void scan_module(const Module& module, const Layout& layout, GridModelData& data);

}  // namespace tessera
