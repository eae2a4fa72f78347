// Runs a plan on one rank. Everything that can be known is bound at load: local sizes, addresses,
// kernels.
#pragma once
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "ir/base/tensor.h"
#include "runtime/comm.h"
#include "runtime/device.h"
#include "runtime/link_model.h"
#include "runtime/plan.h"
#include "runtime/trace.h"

namespace tessera {

// Scalars on their way to the host.
struct HostScalars {
  std::vector<double> values;  // these two valid after `ready`
  std::chrono::steady_clock::time_point taken;
  Event ready;
};

struct ExecutorOptions {
  LinkModel links;
  std::optional<std::uint64_t> delay_seed;  // random pauses in every stream, for tests
};

class Executor {
 public:
  // Compares the plan's hash over all ranks. `plan` and `world` must outlive the executor.
  Executor(const Plan& plan, World& world, const ExecutorOptions& options = {});

  const Plan& plan() const { return plan_; }
  World& world() { return world_; }
  void record_into(Trace& to);

  // Reads this rank's slices of all weights; files are named relative to `folder`. Rank 0 checks
  // the hashes, if asked.
  void load_weights(const std::filesystem::path& folder, bool verify_hashes);
  // Instead: values by seed and global position in the file's layout, the same on every grid.
  void randomize_weights(std::uint64_t seed);

  bool has(std::string_view func) const { return plan_.find(func) != nullptr; }
  // Copies this rank's slice of a whole tensor into an input of a function. Throws CompileError for
  // another type.
  void set_input(std::string_view func, std::string_view input, const Tensor& whole);
  // Puts the function's steps into the streams' queues and returns; nobody waits but those who ask
  // for values.
  void run(std::string_view func);
  void synchronize();  // until everything so far has been done; throws what a step threw
  const RankAbort& rank_abort() const { return abort_; }

  // The whole value of an argument (parameter, state) or of a function's output, on rank 0; empty
  // elsewhere. Partial values are added in rank order. Every rank must call it.
  Tensor collect_arg(std::string_view name);
  Tensor collect_output(std::string_view func, std::string_view output);
  // Copies replicated scalar outputs from this rank's own memory, after what was run so far. Nobody
  // waits: the step goes on while the host looks at them later. NaN for outputs the function lacks.
  std::shared_ptr<HostScalars> stage_scalars(std::string_view func,
                                             const std::vector<std::string>& outputs);
  // The reverse of collect_arg: every rank passes the whole value.
  void store_arg(std::string_view name, const Tensor& whole);

 private:
  struct BoundStep {
    const PlanStep* step = nullptr;
    std::function<void()> run;
    int stream = 0;
    std::unique_ptr<Event> ended;  // if steps of other streams wait for it
  };
  struct BoundFunc {
    const PlanFunc* func = nullptr;
    std::vector<BoundStep> steps;
    std::uint64_t runs = 0;
    Event begun;
  };
  struct Place {
    const Type* type = nullptr;
    std::byte* data = nullptr;
  };

  void add_streams(const ExecutorOptions& options);
  void run_step(BoundFunc& bound, const BoundStep& step, std::uint64_t round);
  void bind(const PlanFunc& func);
  std::function<void()> bind_step(const PlanFunc& func, const PlanStep& step);
  std::function<void()> bind_fused(const PlanFunc& func, const PlanStep& step);
  std::function<void()> bind_collective(const PlanFunc& func, const PlanStep& step);
  std::function<void()> bind_constant(const PlanFunc& func, const PlanStep& step);
  Place place(const PlanFunc& func, int value) const;
  Place find_arg(std::string_view name) const;
  double scalar_output(std::string_view func, std::string_view output) const;
  Tensor collect(const Place& place, const std::string& what);
  void store(const Place& place, const Tensor& whole);

  const Plan& plan_;
  World& world_;
  Coordinates at_;
  Arena arena_;
  RankAbort abort_;
  Trace* trace_ = nullptr;                      // when set, steps are recorded
  std::vector<std::unique_ptr<Group>> groups_;  // by Plan::comms
  std::map<std::string, BoundFunc, std::less<>> bound_;
  std::map<std::string, int> stream_of_{{"", 0}};
  std::vector<std::unique_ptr<Stream>> streams_;  // 0 computes; last: they end before what they use
};

}  // namespace tessera
