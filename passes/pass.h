// What a pass is, and what it may know. A pass is a function in a file of its own, listed once in
// passes.def; the manager, not the pass, verifies, times, dumps and rejects a pass that is out of
// place.
#pragma once
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "ir/graph.h"

namespace tessera {

enum class OptimizerKind : std::uint8_t { Sgd, SgdMomentum, Adam, AdamW };

struct OptimizerSpec {
  OptimizerKind kind = OptimizerKind::AdamW;
  double lr = 1e-3;  // only the default that tools feed; the rate is an input of every step
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0.0;
  double momentum = 0.9;
};

// "adamw:lr=1e-3,beta1=0.9,beta2=0.95,eps=1e-8,weight_decay=0.1". Throws CompileError naming the
// flag.
OptimizerSpec parse_optimizer(std::string_view text);

// Which values of the forward pass are made again in the backward pass
// (passes/logical/recompute_activations.cpp).
enum class Recompute : std::uint8_t { None, Selective, Block };

// What trades time for memory on a grid: chosen by the user or by the search.
struct Settings {
  std::int64_t micro_batches = 1;
  Recompute recompute = Recompute::None;
  bool regather = false;  // parameters are gathered over z again for the backward pass
  bool zero1 = false;     // optimizer state is cut over data too (ZeRO stage 1)
  // Where the 4D algorithm copies activations over y (the residual stream), their tokens are cut
  // over y (Megatron's sequence parallelism); where it copies them over x (heads, MLP hidden),
  // their features are cut over x (ATP). All-reduces become reduce_scatter and all_gather.
  bool scatter_tokens = false, scatter_features = false;
  std::int64_t sub_batches = 1;  // of a micro-batch (passes/sharded/split_micro_batch.cpp)
};

// Whether passes/search/refine_loops.cpp may leave the layout: never, where it promises to pay for
// another compilation, or always.
enum class Refine : std::uint8_t { Off, WhereWorthIt, On };

// Which collectives run while the device computes (passes/scheduled/overlap_collectives.cpp): the
// three that arXiv 2305.13525 names, and the others.
enum class OverlapKind : std::uint8_t {
  Reduce,   // OAR: all_reduce of activations and their gradients
  Scatter,  // ORS: reduce_scatter of weight gradients
  Gather,   // OAG: all_gather of parameters
  Other,    // data-parallel reductions, token gathers and all else
};
std::string_view name(OverlapKind kind);  // "oar", "ors", "oag", "other"
using Overlap = std::set<OverlapKind>;
Overlap all_overlap();
// "all", "none" or a list of oar, ors, oag, other. Throws CompileError naming the flag.
Overlap parse_overlap(std::string_view text);

struct PassOptions : Settings {
  bool train = false;
  std::string loss = "cross_entropy";  // or "output:NAME": a scalar output of the graph
  std::string logits;                  // graph output; empty = the only float output
  std::string labels = "labels";       // name of the label input that append_loss adds
  OptimizerSpec optimizer;
  double clip_norm = 0;           // 0 = no clipping
  std::vector<std::string> pins;  // passes/sharded/pins.h
  Refine refine = Refine::Off;
  double refine_bytes = std::numeric_limits<double>::infinity();  // what a rank may keep more by it
  std::optional<Overlap> overlap;      // if not given: all, where the machine gains by it
  std::optional<double> memory_bytes;  // that a plan may use of a device; else all the machine has
  std::string machine = "localhost";   // whose costs it takes: a preset or a machine file
};

struct PassContext {
  PassOptions options;
  std::vector<std::string> remarks;
  bool refined = false;  // some loops are not the layout's

  void remark(std::string text) { remarks.push_back(std::move(text)); }
};

using PassFunction = bool (*)(Module&, PassContext&);  // returns whether the module changed

struct Pass {
  std::string_view name;
  Level from = Level::Logical;
  Level to = Level::Logical;
  std::string_view summary;
  PassFunction run = nullptr;
};

#define PASS(name, from, to, summary) bool name(Module& module, PassContext& context);
#include "passes/passes.def"
#undef PASS

const std::vector<Pass>& all_passes();
const Pass* find_pass(std::string_view name);  // null if absent

}  // namespace tessera
