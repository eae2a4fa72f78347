// Laws 1 and 2 on real models: every dump parses back to itself, and every logical pass preserves
// what the module computes.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "frontend/import_onnx.h"
#include "ir/base/file.h"
#include "ir/base/safetensors.h"
#include "ir/base/text.h"
#include "ir/dump.h"
#include "ir/print.h"
#include "ir/verify.h"
#include "passes/pass_manager.h"
#include "runtime/weight_view.h"
#include "test/support/interpret.h"

namespace tessera::test {
namespace {

namespace fs = std::filesystem;
const fs::path kModels = fs::path(TESSERA_TEST_DATA) / "models";

struct Loaded {
  ImportResult imported;
  std::map<std::string, Tensor> reference;
};

Loaded load(const std::string& name) {
  const auto info = nlohmann::json::parse(std::ifstream(kModels / name / "model.json"));
  ImportOptions options;
  options.model = kModels / name / "model.onnx";
  const std::string bind = info.at("bind");
  for (std::size_t at = 0; at < bind.size();) {
    const std::size_t comma = std::min(bind.find(',', at), bind.size());
    const std::string item = bind.substr(at, comma - at);
    options.bindings[item.substr(0, item.find('='))] = std::stoll(item.substr(item.find('=') + 1));
    at = comma + 1;
  }
  return {import_onnx(options), read_safetensors(kModels / name / "reference.safetensors")};
}

// Inputs from the reference, parameters from the files through their views, states zero.
std::map<std::string, Tensor> arguments(const Module& module, const Func& func,
                                        const Loaded& loaded, const std::string& model) {
  std::map<std::string, Tensor> args;
  for (const Arg& arg : func.args()) {
    const std::string& name = arg.value->name;
    if (loaded.reference.contains("input." + name))
      args[name] = loaded.reference.at("input." + name);
    if (name == "labels")
      args[name] = loaded.reference.at("labels").reshaped(arg.value->type.shape);
    if (arg.kind != ArgKind::Param) continue;
    const WeightSource& source = module.weights.at(name);
    std::ifstream in(kModels / model / source.file, std::ios::binary);
    std::vector<char> bytes(source.bytes);
    in.seekg(static_cast<std::streamoff>(source.offset))
        .read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    Tensor value(source.dtype, arg.value->type.shape);
    const StridedView view = strided_view(source);
    read_piece(reinterpret_cast<const std::byte*>(bytes.data()), view, Shape(view.shape.size(), 0),
               view.shape, source.dtype, value.mutable_data());
    args[name] = value;
  }
  return args;
}

double relative_distance(const Tensor& a, const Tensor& b) {
  double difference = 0, size = 0;
  for (std::int64_t i = 0; i < a.size(); ++i) {
    difference += std::pow(a.number(i) - b.number(i), 2);
    size += std::pow(b.number(i), 2);
  }
  return std::sqrt(difference / size);
}

class PassLaws : public testing::TestWithParam<const char*> {};

TEST_P(PassLaws, LogicalPassesPreserveTheLogits) {
  Loaded loaded = load(GetParam());
  Module& module = loaded.imported.module;
  PassContext context;
  const std::vector<const Pass*> pipeline = tessera::pipeline(false);
  const Tensor& expected = loaded.reference.at("logits");
  for (std::size_t i = 0; i <= pipeline.size() && module.level == Level::Logical; ++i) {
    const Func& forward = *module.find("forward");
    const auto results = interpret(module, forward, arguments(module, forward, loaded, GetParam()));
    ASSERT_LE(relative_distance(results.begin()->second, expected), 1e-5)
        << (i == 0 ? "import" : pipeline[i - 1]->name);
    if (i == pipeline.size() || pipeline[i]->to != Level::Logical) break;
    const Pass* next = pipeline[i];
    PassManager({{}, true}).run(module, {&next, 1}, context);
  }
}

TEST_P(PassLaws, EveryDumpParsesBackToItself) {
  Loaded loaded = load(GetParam());
  loaded.imported.module.grid = Grid::parse("data=2,z=2,y=2,x=2", "test");
  const fs::path folder =
      fs::temp_directory_path() / str("tessera-dumps-", ::getpid(), "-", GetParam());
  fs::create_directories(folder);
  PassContext context;
  context.options.recompute = Recompute::Block;
  context.options.regather = context.options.zero1 = true;
  PassManager manager({folder, true});
  manager.dump(loaded.imported.module, "import");
  manager.run(loaded.imported.module, tessera::pipeline(true), context);
  int dumps = 0;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() != ".tir") continue;
    const Module module = read_module(entry.path());
    EXPECT_EQ(to_text(module, {"constants.safetensors"}), read_text(entry.path())) << entry.path();
    EXPECT_TRUE(verify(module).empty()) << entry.path();
    ++dumps;
  }
  EXPECT_GE(dumps, 12);
  fs::remove_all(folder);
}

INSTANTIATE_TEST_SUITE_P(Models, PassLaws,
                         testing::Values("gpt2_tiny", "gpt2_odd", "llama_tiny", "bert_tiny",
                                         "gpt2_dynamo", "llama_dynamo"));

}  // namespace
}  // namespace tessera::test
