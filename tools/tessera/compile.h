// `tessera compile`: model -> plan.
#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "passes/pass.h"

namespace tessera {

struct CompileFlags {
  std::filesystem::path model, output, dump_dir, dump_costs;
  bool train = false, infer = false, remarks = false, retie = true, quiet = false;
  std::vector<std::string> bind, freeze, trainable;
  std::string grid, optimizer = "adamw";
  // Without a whole --grid the search chooses one for `devices` of `machine`.
  std::string machine, strategy = "auto";
  int devices = 0;
  bool timings = false;
  double max_memory = 0;           // bytes of a device that the search may use; 0: all of it
  bool any_micro_batches = false;  // the search may also choose --micro-batches
  // Settings that the user has fixed; the search chooses the others. Without a search they are off.
  struct {
    std::optional<Recompute> recompute;
    std::optional<bool> regather, zero1, scatter_tokens, scatter_features, refine;
  } fixed;
  PassOptions options;
};

// Throws CompileError; nothing is written then.
void compile_model(const CompileFlags& flags);

}  // namespace tessera
