// The plan: what codegen writes and the runtime executes. One text for all ranks: types are global,
// offsets are for the largest local sizes (coordinate 0); each rank derives its own sizes and
// global offsets at load.
//
// A plan is a folder: plan.txt (this text), and weights as references into the model's own files or
// as safetensors.
#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "ir/base/op_kind.h"
#include "ir/base/tensor.h"
#include "ir/base/type.h"
#include "ir/base/weights.h"

namespace tessera {

inline constexpr int kPlanVersion = 1;
inline constexpr std::int64_t kNoBuffer = -1;
inline constexpr std::int64_t kPlanInlineConstant = 64;  // larger constants lie in a side file
inline constexpr std::int64_t kMaxArenaBytes = std::int64_t{1} << 46;
inline constexpr const char* kPlanConstantsFile = "constants.safetensors";
inline constexpr const char* kPlanFile = "plan.txt";

struct PlanValue {
  std::string name;  // unique in its function
  Type type;
  std::int64_t offset =
      kNoBuffer;  // bytes into the arena; kNoBuffer for temporaries inside a fused step
};

// One line of the plan. A fused step has a body of elementwise steps (fill, iota, broadcast, cast
// included) over values without buffers; its own operands and results are then the buffers that the
// body reads and writes.
struct PlanStep {
  OpKind kind = OpKind::Add;
  AttrList attrs;
  std::vector<int> operands;  // indices into PlanFunc::values
  std::vector<int> results;
  std::vector<PlanStep> body;  // non-empty: a fused step, `kind` and `attrs` are not used
  int comm = -1;               // index into Plan::comms, for collectives that communicate
  std::string stream;          // empty = the compute stream
  std::vector<int>
      after;           // steps of other streams that must have ended (indices into PlanFunc::steps)
  std::string origin;  // ONNX node the step comes from, for messages; may be empty

  bool fused() const { return !body.empty(); }
};

enum class ArgRole : std::uint8_t {
  Input,  // written by the host before the function runs
  Param,  // persistent; initialised from Plan::weights
  State,  // persistent; zero at the start
};

struct PlanArg {
  int value = 0;
  ArgRole role = ArgRole::Input;
};

// `updates`: the value is the new content of the argument `name` (same buffer). Otherwise an output
// called `name`.
struct PlanResult {
  int value = 0;
  std::string name;
  bool updates = false;
};

// Arguments of one name are one buffer in all functions: that is how functions hand values to each
// other.
struct PlanFunc {
  std::string name;  // forward; or prepare, micro, update
  std::vector<PlanValue> values;
  std::vector<PlanArg> args;
  std::vector<PlanStep> steps;
  std::vector<PlanResult> results;
};

struct Plan {
  int version = kPlanVersion;
  Grid grid;
  std::string target = "cpu";
  std::string isa = "x86-64";  // the least instruction set the plan needs
  std::int64_t arena_bytes = 0;
  std::int64_t alignment = 64;
  std::int64_t micro_batches = 1;
  std::string model;  // the ONNX file's name, for messages
  std::map<std::string, std::string>
      notes;                // free key/value facts for tools: logits, labels, tokens, batch_dim ...
  std::vector<Axes> comms;  // one communicator per set of axes in use
  std::map<std::string, WeightSource> weights;  // by argument name
  std::map<std::string, Tensor> constants;
  std::vector<PlanFunc> funcs;
  std::string hash;  // SHA-256 of the text without this line

  const PlanFunc* find(std::string_view name) const;
};

// Whether a step's result is its operand under another name: a wait, or a reshape in place.
bool shares_bytes(const PlanFunc& func, const PlanStep& step);

// One step as the plan's text has it, without a fused step's body.
std::string to_line(const PlanFunc& func, const PlanStep& step, const Grid& grid);

// Text form. Constants above 64 elements go to constants.safetensors beside plan.txt.
std::string to_text(const Plan& plan);
// Throws CompileError for another version, a damaged text (hash), offsets outside the arena,
// unknown values, or anything else that is not a plan; never trusts a size before it is checked.
// Constants of a side file are read by `folder`.
Plan parse_plan(const std::string& text, const std::string& file,
                const std::filesystem::path& folder = {});

// Atomically: a temporary folder, renamed when complete; a plan that is there is replaced, any
// other folder refused. `inline_weights` are written to weights.safetensors; their sources must
// name it, and get their offsets here.
void write_plan(const Plan& plan, const std::filesystem::path& folder,
                const std::map<std::string, Tensor>& inline_weights = {});
Plan read_plan(const std::filesystem::path& folder);

}  // namespace tessera
