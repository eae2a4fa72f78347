#include "runtime/progress.h"

#include <unistd.h>

#include <cstdio>
#include <string>

namespace tessera {
namespace {
constexpr int kBarWidth = 28;
constexpr double kSecondsPerLine = 2.0;
}  // namespace

Progress::Progress(std::int64_t steps, std::int64_t tokens_per_step, bool shown)
    : steps_(steps),
      tokens_per_step_(tokens_per_step),
      shown_(shown),
      terminal_(::isatty(STDOUT_FILENO) == 1) {}

void Progress::step(std::int64_t step, double loss, double grad_norm, double seconds) {
  if (!shown_) return;
  seconds_since_line_ += seconds;
  ++steps_since_line_;
  const bool last = step + 1 == steps_;
  const bool due = terminal_ || step < 3 || last || seconds_since_line_ >= kSecondsPerLine;
  if (!due) return;
  const double rate = static_cast<double>(tokens_per_step_ * steps_since_line_) /
                      (seconds_since_line_ > 0 ? seconds_since_line_ : 1e-9);
  if (terminal_) {
    const auto filled = static_cast<int>(kBarWidth * (step + 1) / (steps_ > 0 ? steps_ : 1));
    const std::string bar = std::string(static_cast<std::size_t>(filled), '=') +
                            std::string(static_cast<std::size_t>(kBarWidth - filled), ' ');
    std::printf("\r[%s] step %lld/%lld  loss %.5f  grad %.3g  %.0f tokens/s ", bar.c_str(),
                static_cast<long long>(step) + 1, static_cast<long long>(steps_), loss, grad_norm,
                rate);
  } else {
    std::printf("step %lld/%lld  loss %.6f  grad_norm %.6g  %.0f tokens/s\n",
                static_cast<long long>(step) + 1, static_cast<long long>(steps_), loss, grad_norm,
                rate);
  }
  std::fflush(stdout);
  seconds_since_line_ = 0;
  steps_since_line_ = 0;
}

void Progress::finish() {
  if (shown_ && terminal_) std::printf("\n");
}

}  // namespace tessera
