#include "tools/tessera-run/check.h"

#include <unistd.h>

#include <cmath>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>

#include "ir/base/diag.h"
#include "ir/base/safetensors.h"
#include "ir/base/text.h"
#include "runtime/one_device.h"
#include "tools/tessera-run/launch.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;
constexpr double kTolerance = 1e-4;

struct FirstStep {
  int code = 0;  // of the run; the rest is there if it is 0
  double loss = 0, grad_norm = 0;
  std::map<std::string, Tensor> gradients;
};

FirstStep first_step(const Plan& plan, SessionOptions options, Timeout timeout,
                     const fs::path& folder) {
  options.steps = 1;
  options.quiet = true;
  options.log = folder / "log";
  options.dump_gradients = folder / "gradients";
  options.checkpoint.clear();
  options.save_weights.clear();
  options.trace.clear();
  FirstStep step;
  step.code = run_local(plan, options, timeout);
  if (step.code != 0) return step;
  const auto line = nlohmann::json::parse(std::ifstream(options.log));
  step.loss = line.at("loss").get<double>();
  step.grad_norm = line.at("grad_norm").get<double>();
  step.gradients = read_safetensors(options.dump_gradients);
  return step;
}

struct ScratchFolder {
  const fs::path path = fs::temp_directory_path() / str("tessera-check-", ::getpid());
  ~ScratchFolder() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
};

double relative(double a, double b) {
  return a == b ? 0 : std::fabs(a - b) / std::fmax(std::fabs(b), 1e-30);
}

// |a - b| / (|b| + 0.01 |all gradients|): some true gradients are zero.
double gradient_error(const Tensor& a, const Tensor& b, double all) {
  double difference = 0, size = 0;
  for (std::int64_t i = 0; i < a.size(); ++i) {
    difference += (a.number(i) - b.number(i)) * (a.number(i) - b.number(i));
    size += b.number(i) * b.number(i);
  }
  return std::sqrt(difference) / (std::sqrt(size) + 0.01 * all + 1e-30);
}

}  // namespace

int check_plan(const Plan& plan, const SessionOptions& options, Timeout timeout) {
  if (plan.find("micro") == nullptr)
    throw CompileError("--check", "compares training steps; this plan is for inference");
  const ScratchFolder scratch;
  const fs::path& folder = scratch.path;
  fs::create_directories(folder / "grid");
  fs::create_directories(folder / "one");
  const FirstStep grid = first_step(plan, options, timeout, folder / "grid");
  if (grid.code != 0) return grid.code;
  const FirstStep one = first_step(on_one_device(plan), options, timeout, folder / "one");
  if (one.code != 0) return one.code;
  double worst = std::fmax(relative(grid.loss, one.loss), relative(grid.grad_norm, one.grad_norm));
  std::cout << "loss       " << grid.loss << "  one device " << one.loss << "\n";
  std::cout << "grad_norm  " << grid.grad_norm << "  one device " << one.grad_norm << "\n";
  std::string name;
  double largest = 0;
  for (const auto& [parameter, gradient] : one.gradients) {
    const double error = gradient_error(grid.gradients.at(parameter), gradient, one.grad_norm);
    if (error >= largest) {
      largest = error;
      name = parameter;
    }
  }
  worst = std::fmax(worst, largest);
  std::cout << one.gradients.size() << " gradients, largest relative error " << largest << " ("
            << name << ")\n";
  const bool agrees = worst <= kTolerance;
  std::cout << (agrees ? "the plan agrees with one device\n"
                       : "THE PLAN DIFFERS FROM ONE DEVICE\n");
  return agrees ? 0 : 4;
}

}  // namespace tessera
