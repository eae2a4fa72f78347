// One function of a plan. Buffers of arguments are given; the function's own ones get offsets after
// them.
#pragma once
#include <map>
#include <string>
#include <unordered_map>

#include "ir/graph.h"
#include "runtime/plan.h"

namespace tessera {

class FuncEmitter {
 public:
  // `args`: offset of every argument's buffer. `comms` is extended by the sets of axes that the
  // function needs.
  // `overlaps`: some collective of the plan is begun early. Then each set of axes has a stream of
  // its own, and all collectives over it run there, in order.
  FuncEmitter(const Module& module, const Func& func,
              const std::map<std::string, std::int64_t>& args, bool overlaps,
              std::vector<Axes>& comms)
      : module_(module), func_(func), args_(args), overlaps_(overlaps), comms_(comms) {}

  // `base`: first byte after the arguments. Gives the bytes in use in `high_water`.
  PlanFunc run(std::int64_t base, std::int64_t alignment, std::int64_t& high_water);

 private:
  struct Buffer {
    std::int64_t bytes = 0;
    int first = 0;
    int last = 0;
    std::int64_t fixed = kNoBuffer;  // an argument's offset
  };

  int value(const Value* value);
  int add_value(const std::string& name, const Type& type, int buffer);
  void add_args();
  void add_steps();
  void add_step(const struct StepGroup& group);
  void add_fused(const struct StepGroup& group);
  void add_wait(const Op& op);
  void put_on_stream(const Op& op, PlanStep& step) const;
  void add_results();
  int comm_of(const Op& op);
  int new_buffer(const Type& type);
  int result_buffer(const Op& op, const Value* result);
  int updated_arg_buffer(const Value* result, const Op& writer);
  void read(int value_index);
  bool written_before_last_read(const Value* arg, int step) const;
  bool in_place(const Op& op) const;

  const Module& module_;
  const Func& func_;
  const std::map<std::string, std::int64_t>& args_;
  const bool overlaps_;
  std::vector<Axes>& comms_;
  PlanFunc plan_;
  std::vector<Buffer> buffers_;
  std::vector<int> buffer_of_value_;  // by plan value; -1 for values inside fused steps
  std::map<const Value*, int> values_;
  std::unordered_map<const Value*, std::vector<const FuncResult*>> returned_;
  std::map<const Value*, int> last_reader_;  // step index of the last read of an argument
  std::map<const Value*, int> begun_;        // step that began what is in flight
  int last_compute_ = -1;
};

}  // namespace tessera
