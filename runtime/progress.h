// What a person sees while training: a bar with loss and tokens a second on a terminal, a line now
// and then elsewhere.
#pragma once
#include <cstdint>

namespace tessera {

class Progress {
 public:
  Progress(std::int64_t steps, std::int64_t tokens_per_step, bool shown);
  void step(std::int64_t step, double loss, double grad_norm, double seconds);
  void finish();

 private:
  std::int64_t steps_, tokens_per_step_;
  bool shown_, terminal_;
  double seconds_since_line_ = 0;
  std::int64_t steps_since_line_ = 0;
};

}  // namespace tessera
