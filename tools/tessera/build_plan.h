// From a model to the plan of one choice. Internal to `tessera compile`.
#pragma once
#include "codegen/emit_plan.h"
#include "frontend/import_onnx.h"
#include "passes/pass_manager.h"
#include "tools/tessera/compile.h"
#include "tools/tessera/timings.h"

namespace tessera {

// The model after the passes that do not depend on the grid.
struct Logical {
  ImportResult imported;
  PassContext context;
  PassManager manager;
};

struct Compiled {
  Logical logical;
  Plan plan;
};

Logical import_and_prepare(const CompileFlags& flags, const Grid& grid, Timings& timings);
// Those that give every op its loops, before any are refined.
std::vector<const Pass*> layout_passes();
// The module's grid is the one to compile for.
Compiled finish(Logical logical, const CompileFlags& flags, Timings& timings);

}  // namespace tessera
