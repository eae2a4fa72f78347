// Small graphs from public bug reports (test/data/cases), on every grid of a spread: right values,
// or a refusal that says why.
#include <algorithm>
#include <cmath>

#include "test/support/compile.h"

namespace tessera::test {
namespace {

const char* const kGrids[] = {"data=1",
                              "data=2",
                              "z=2",
                              "y=2",
                              "x=2",
                              "y=4",
                              "x=4",
                              "data=2,z=2,y=2,x=1",
                              "data=1,z=1,y=2,x=2",
                              "data=2,z=2,y=2,x=2",
                              "data=2,z=2,y=2,x=2 with all settings",
                              "data=*,z=*,y=*,x=*"};  // the search chooses

std::vector<std::string> case_names() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(data("cases")))
    names.push_back(entry.path().filename().string());
  std::ranges::sort(names);
  return names;
}

class Cases : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    folder_ = data("cases/" + GetParam());
    settings_ = nlohmann::json::parse(std::ifstream(folder_ / "case.json"));
    reference_ = read_safetensors(folder_ / "reference.safetensors");
  }

  CompileFlags flags(const std::string& grid, const Scratch& scratch) const {
    CompileFlags f;
    f.model = folder_ / "model.onnx";
    f.grid = grid.substr(0, grid.find(' '));
    f.devices = 8;
    if (f.grid != grid) {
      f.options.recompute = Recompute::Selective;
      f.options.regather = f.options.zero1 = true;
      f.options.scatter_tokens = f.options.scatter_features = true;
    }
    f.output = scratch / "plan";
    f.quiet = true;
    f.train = settings_.at("mode") == "train";
    f.infer = !f.train;
    f.optimizer = "sgd:lr=0.0";
    if (f.train) f.options.loss = settings_.at("loss").get<std::string>();
    return f;
  }

  void expect_equal(const Tensor& found, const Tensor& expected, const std::string& what) const {
    ASSERT_EQ(found.size(), expected.size()) << what;
    double largest = 0;
    for (std::int64_t i = 0; i < expected.size(); ++i) {
      if (std::isfinite(expected.number(i)))
        largest = std::max(largest, std::fabs(expected.number(i)));
    }
    for (std::int64_t i = 0; i < expected.size(); ++i) {
      const double a = found.number(i), b = expected.number(i);
      const bool same = a == b || (std::isnan(a) && std::isnan(b)) ||
                        std::fabs(a - b) <= settings_.at("tolerance").get<double>() * largest;
      ASSERT_TRUE(same) << what << "[" << i << "] is " << a << ", must be " << b;
    }
  }

  fs::path folder_;
  nlohmann::json settings_;
  std::map<std::string, Tensor> reference_;
};

TEST_P(Cases, GiveTheRightValuesOrSayWhyNot) {
  for (const char* grid : kGrids) {
    const Scratch scratch;
    if (settings_.contains("says")) {
      try {
        compile_model(flags(grid, scratch));
        FAIL() << "must be refused";
      } catch (const CompileError& error) {
        EXPECT_NE(std::string(error.what()).find(settings_.at("says").get<std::string>()),
                  std::string::npos)
            << error.what();
        EXPECT_FALSE(fs::exists(scratch / "plan"));
      }
      return;
    }
    compile_model(flags(grid, scratch));
    SessionOptions session;
    session.plan_folder = scratch / "plan";
    session.quiet = true;
    for (const auto& name : settings_.at("inputs")) {
      const std::string input = name.get<std::string>();
      const fs::path file = scratch / (input + ".npy");
      write_npy(file, reference_.at("input." + input));
      session.batches.inputs[input] = file;
    }
    const bool train = settings_.at("mode") == "train";
    if (train) {
      session.dump_gradients = scratch / "grads";
      session.log = scratch / "log";
    } else {
      for (const auto& name : settings_.at("outputs"))
        session.outputs[name.get<std::string>()] = scratch / (name.get<std::string>() + ".out.npy");
    }
    ASSERT_EQ(run(session), 0) << grid;
    if (train) {
      const auto grads = read_safetensors(session.dump_gradients);
      for (const auto& [name, expected] : reference_) {
        if (name.starts_with("grad."))
          expect_equal(grads.at(name.substr(5)), expected, str(grid, " ", name));
      }
      const double loss = reference_.at("output.loss").number(0);
      EXPECT_NEAR(read_log(session.log).at(0).loss, loss, 1e-5 * std::fabs(loss)) << grid;
      continue;
    }
    for (const auto& name : settings_.at("outputs")) {
      const std::string output = name.get<std::string>();
      expect_equal(read_npy(scratch / (output + ".out.npy")), reference_.at("output." + output),
                   str(grid, " ", output));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Reports, Cases, testing::ValuesIn(case_names()),
                         [](const auto& test) { return test.param; });

// Means over labels that count: 1,1,1 on one rank and 9 on the other is 3, not 5; no label at all
// is 0 (C4, C5).
class LabelMeans : public testing::TestWithParam<const char*> {};

TEST_P(LabelMeans, CountEachLabelOnceOverAllRanks) {
  const ModelCase model("gpt2_tiny");
  const Scratch scratch;
  compile_model(model.training("data=1", scratch / "one"));
  compile_model(model.training(GetParam(), scratch / "grid"));
  Tensor labels = read_npy(model.folder / "labels.npy");
  auto values = labels.mutable_view<std::int64_t>();
  for (const int keep : {1, 0}) {  // one sample with a single label that counts, then none at all
    for (std::size_t i = 16; i < values.size(); ++i) values[i] = -100;
    if (keep == 0) std::fill(values.begin(), values.end(), -100);
    write_npy(scratch / "labels.npy", labels);
    std::vector<StepLog> logs;
    for (const char* plan : {"one", "grid"}) {
      SessionOptions session = model.session(scratch / plan, true);
      session.batches.inputs["labels"] = scratch / "labels.npy";
      session.log = scratch / "log";
      ASSERT_EQ(run(session), 0);
      logs.push_back(read_log(session.log).at(0));
    }
    EXPECT_TRUE(std::isfinite(logs[1].loss));
    EXPECT_NEAR(logs[1].loss, logs[0].loss, 1e-5);
    EXPECT_NEAR(logs[1].grad_norm, logs[0].grad_norm, 1e-5 * (1 + logs[0].grad_norm));
    if (keep == 0) {
      EXPECT_EQ(logs[1].loss, 0);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Grids, LabelMeans,
                         testing::Values("data=4", "data=2,z=2,y=2,x=1", "data=1,z=1,y=2,x=2"));

}  // namespace
}  // namespace tessera::test
