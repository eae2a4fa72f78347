// Checkpoints: DIR/step-N with the whole training state in the model's own layout, so that any grid
// can load it. Written to a temporary folder, checksummed, synced, and renamed last: what has its
// final name is complete.
#pragma once
#include <filesystem>

#include "runtime/executor.h"

namespace tessera {

struct TrainingState {
  std::int64_t step =
      0;  // steps done; data are sampled by step and seed, so this is the data position too
  std::uint64_t seed = 0;
};

// Every rank must call it; rank 0 writes.
void save_checkpoint(Executor& executor, const std::filesystem::path& folder,
                     const TrainingState& state);
// Loads the newest complete checkpoint in `folder` (or `folder` itself, if it is one). Throws
// CompileError when there is none, when a checksum or a tensor does not fit, or when anything is
// missing.
TrainingState load_checkpoint(Executor& executor, const std::filesystem::path& folder);

}  // namespace tessera
