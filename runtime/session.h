// A job on one rank: training steps or one inference, with everything tessera-run offers around
// them.
#pragma once
#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "runtime/batches.h"
#include "runtime/comm.h"
#include "runtime/executor.h"
#include "runtime/plan.h"

namespace tessera {

struct SessionOptions {
  std::filesystem::path plan_folder;
  BatchOptions batches;
  std::int64_t steps = 1;
  std::string lr;  // a number, or a file with one rate a line; empty: the plan's
  std::optional<std::uint64_t> random_weights;  // seed
  bool verify_weights = true;
  std::map<std::string, std::filesystem::path> outputs;  // --output NAME=FILE.npy
  std::filesystem::path dump_gradients, save_weights, log, trace;
  std::filesystem::path checkpoint, resume;
  std::int64_t checkpoint_every = 0;
  ExecutorOptions execution;
  bool quiet = false;
};

// Refuses what makes no sense for the plan, and files that cannot be written. Throws CompileError.
void check_options(const Plan& plan, const SessionOptions& options);

// Runs the job on this rank. Throws CompileError, WorldError or Aborted.
void run_session(const Plan& plan, const SessionOptions& options, World& world);

}  // namespace tessera
