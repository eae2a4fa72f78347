// Runs passes: checks levels, verifies, times and dumps after each.
#pragma once
#include <filesystem>
#include <span>

#include "passes/pass.h"

namespace tessera {

struct PassRun {
  std::string name;
  bool changed = false;
  double seconds = 0;
};

struct ManagerOptions {
  std::filesystem::path
      dump_dir;  // NN.pass.tir after each pass that changed something; empty = no dumps
  bool verify_each = true;
};

class PassManager {
 public:
  explicit PassManager(ManagerOptions options) : options_(std::move(options)) {}

  // Throws CompileError for a pass that does not take the module's level, or whose result does not
  // verify.
  void run(Module& module, std::span<const Pass* const> passes, PassContext& context);
  // Writes NN.name.tir, with large constants in constants.safetensors beside it.
  void dump(const Module& module, std::string_view name);

  const std::vector<PassRun>& runs() const { return runs_; }

 private:
  ManagerOptions options_;
  std::vector<PassRun> runs_;
  int dumps_ = 0;
};

// The pipelines, top to bottom (passes/pipeline.cpp).
std::vector<const Pass*> logical_passes(bool train);  // what does not depend on the grid
std::vector<const Pass*> sharded_passes();
std::vector<const Pass*> pipeline(bool train);  // both

}  // namespace tessera
