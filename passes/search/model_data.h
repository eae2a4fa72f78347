// What StepModel keeps of a module: kinds of ops and values with counts. Internal to passes/search.
//
// The logical module comes in three variants, one for each recompute mode. Their ops differ in
// counts alone, and their values in where they live.
#pragma once
#include <array>
#include <map>
#include <set>
#include <vector>

#include "ir/graph.h"
#include "passes/cost/machine.h"
#include "passes/pass.h"
#include "passes/sharded/layout.h"

namespace tessera {

inline constexpr std::size_t kVariants = 3;  // by Recompute
inline std::size_t variant_of(Recompute mode) { return static_cast<std::size_t>(mode); }

// What cuts a dimension: nothing, the batch, tokens (spare), one of the two colours, both for a
// vocabulary, or a colour's share of grouped heads.
struct Role {
  enum Kind : std::uint8_t { None, Batch, Tokens, X, Y, Vocabulary, Groups, Queries } kind = None;
  Color color = Color::X;                // of heads
  std::int64_t groups = 1, queries = 1;  // of heads
  auto operator<=>(const Role&) const = default;
};

// Activations lie as their dimensions say. Parameters are cut over z as well. Gradients are reduced
// over data at once, or once a step when there are several micro-batches. Optimizer state, and what
// the update computes from gradients, may be cut over data.
enum class Storage : std::uint8_t { Activation, Param, Gradient, Optimizer };

// Values of one type whose dimensions have the same roles are priced alike.
struct ValueKind {
  Type type;  // logical, of the whole batch
  std::vector<Role> roles;
  Storage storage = Storage::Activation;
};

// Under which settings something holds: gathered versions are kept, or made again in the backward
// pass.
enum GatherMode : std::uint8_t { kKeep = 1, kRegather = 2 };

struct DistinctOp {
  OpKind kind;
  AttrList attrs;
  IndexMap map;
  std::vector<int> operands, results;  // value kinds; -1: made where it is needed
  std::vector<std::uint8_t> fresh;     // gather modes in which this reader is the first, and pays
  std::vector<std::pair<char, Role>> loops;
  bool follows = false;   // works on its operands as they are stored
  bool in_micro = false;  // done once a micro-batch
  bool joins = false;     // its result is added to another partial one before the reduction
  std::array<double, kVariants> count{};
};

// Where a value of @micro lives, in positions of its op list.
struct Life {
  int kind = 0;
  int from = 0, to = 0;
};

// Where a version of a value lives that an op needs otherwise than the value lies.
struct VersionLife {
  int op = 0, operand = 0;  // the distinct op that says how
  int from = 0, to = 0;
  std::uint8_t modes = kKeep | kRegather;
};

struct ModelData {
  Machine machine;
  std::int64_t batch = 1;
  std::vector<ValueKind> kinds;
  std::vector<DistinctOp> ops;
  std::vector<std::pair<int, double>> states;  // (value kind, how many)
  std::array<std::vector<Life>, kVariants> lives;
  std::array<std::vector<VersionLife>, kVariants> versions;
  std::array<int, kVariants> length{};  // ops of @micro
};

// Adds one variant. Ops that look alike (kind, attributes, kinds of their values) become one with a
// count.
class ModuleScanner {
 public:
  explicit ModuleScanner(ModelData& data) : data_(data) {}
  void scan(const Module& module, const Layout& layout, Recompute variant);

 private:
  struct FuncScan;
  Role role_of(const Layout& layout, ClassId id) const;
  int kind_of(const Layout& layout, const Value* value, Storage storage);
  void scan_func(FuncScan& scan);
  void add(FuncScan& scan, const Op& op, int position);

  ModelData& data_;
  std::map<std::string, int> kind_ids_, op_ids_;
  std::set<std::string> states_seen_;
};

}  // namespace tessera
