// The pipelines, top to bottom: this file reads as the table of contents of the compiler.
#include "passes/pass_manager.h"

namespace tessera {
namespace {

std::vector<const Pass*> named(std::initializer_list<std::string_view> names) {
  std::vector<const Pass*> passes;
  for (const std::string_view name : names) {
    passes.push_back(find_pass(name));
    TESSERA_CHECK(passes.back() != nullptr, "no pass ", name);
  }
  return passes;
}

}  // namespace

std::vector<const Pass*> logical_passes(bool train) {
  std::vector<const Pass*> passes = named({
      "fold_constants", "merge_duplicates", "remove_dead",  // what the frontend's sweep left
      "unflatten_reshapes", "absorb_param_views",  // every logical dimension is a dimension
      "fold_constants", "merge_duplicates", "remove_dead",   //
      "fuse_patterns", "absorb_param_views", "remove_dead",  // norms, activations, attention
  });
  if (!train) return passes;
  const std::vector<const Pass*> training = named({
      "append_loss", "differentiate",
      "append_optimizer",  // the training step, on the logical graph
      "fold_constants", "merge_duplicates", "remove_dead",  //
      "recompute_activations",                              // what memory asks for
  });
  passes.insert(passes.end(), training.begin(), training.end());
  return passes;
}

std::vector<const Pass*> sharded_passes() {
  return named({"split_micro_batch", "choose_shardings", "propagate_shardings", "refine_loops",
                "expand_cut_reductions", "insert_reshards", "lower_reshards", "merge_collectives",
                "overlap_collectives"});
}

std::vector<const Pass*> pipeline(bool train) {
  std::vector<const Pass*> passes = logical_passes(train);
  const std::vector<const Pass*> sharded = sharded_passes();
  passes.insert(passes.end(), sharded.begin(), sharded.end());
  return passes;
}

}  // namespace tessera
