// Sharded module -> plan: elementwise chains are fused, buffers get offsets from liveness,
// collectives communicators.
#pragma once
#include <filesystem>

#include "ir/graph.h"
#include "runtime/plan.h"

namespace tessera {

struct EmitOptions {
  std::filesystem::path model_folder;  // weight files are relative to it
  std::filesystem::path plan_folder;   // the plan names them relative to this one
  std::string isa = "x86-64-v3";
};

// The module must be verified, and lowered: no reshards. Hashes every weight range once.
Plan emit_plan(const Module& module, const EmitOptions& options);

}  // namespace tessera
