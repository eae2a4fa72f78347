// Compiles and runs models inside a test, as `tessera compile` and `tessera-run` do.
#pragma once
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "ir/base/diag.h"
#include "ir/base/safetensors.h"
#include "ir/base/text.h"
#include "runtime/npy.h"
#include "tools/tessera-run/launch.h"
#include "tools/tessera/compile.h"

namespace tessera::test {

namespace fs = std::filesystem;

inline fs::path data(const std::string& name) { return fs::path(TESSERA_TEST_DATA) / name; }

// A folder of this test's own, removed at its end.
class Scratch {
 public:
  Scratch() {
    static int count = 0;
    path_ = fs::temp_directory_path() / str("tessera-test-", ::getpid(), "-", count++);
    fs::create_directories(path_);
  }
  ~Scratch() {
    std::error_code error;
    fs::remove_all(path_, error);
  }
  fs::path operator/(const std::string& name) const { return path_ / name; }

 private:
  fs::path path_;
};

struct StepLog {
  double loss, grad_norm;
};

inline std::vector<StepLog> read_log(const fs::path& path) {
  std::vector<StepLog> steps;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) {
    const auto item = nlohmann::json::parse(line);
    steps.push_back({item.at("loss").get<double>(), item.at("grad_norm").get<double>()});
  }
  return steps;
}

// A model of test/data/models with its references.
struct ModelCase {
  explicit ModelCase(const std::string& model) : folder(data("models/" + model)) {
    info = nlohmann::json::parse(std::ifstream(folder / "model.json"));
    reference = read_safetensors(folder / "reference.safetensors");
  }
  CompileFlags flags(const std::string& grid, const fs::path& plan) const {
    CompileFlags f;
    f.model = folder / "model.onnx";
    f.bind = {info.at("bind").get<std::string>()};
    f.grid = grid;
    f.output = plan;
    f.quiet = true;
    return f;
  }
  CompileFlags training(const std::string& grid, const fs::path& plan) const {
    CompileFlags f = flags(grid, plan);
    f.train = true;
    f.optimizer = "adamw:lr=1e-3,beta1=0.9,beta2=0.95,eps=1e-8,weight_decay=0.1";
    return f;
  }
  SessionOptions session(const fs::path& plan, bool labels) const {
    SessionOptions s;
    s.plan_folder = plan;
    s.quiet = true;
    for (const auto& name : info.at("inputs"))
      s.batches.inputs[name.get<std::string>()] = folder / (name.get<std::string>() + ".npy");
    if (labels) s.batches.inputs["labels"] = folder / "labels.npy";
    return s;
  }

  fs::path folder;
  nlohmann::json info;
  std::map<std::string, Tensor> reference;
};

inline int run(const SessionOptions& options, double timeout = 120) {
  const Plan plan = read_plan(options.plan_folder);
  return run_local(plan, options, Timeout(timeout));
}

inline double norm(const Tensor& tensor) {
  double sum = 0;
  for (std::int64_t i = 0; i < tensor.size(); ++i) sum += tensor.number(i) * tensor.number(i);
  return std::sqrt(sum);
}

inline double distance(const Tensor& a, const Tensor& b) {
  double sum = 0;
  for (std::int64_t i = 0; i < a.size(); ++i)
    sum += (a.number(i) - b.number(i)) * (a.number(i) - b.number(i));
  return std::sqrt(sum);
}

}  // namespace tessera::test
