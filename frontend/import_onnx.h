// ONNX model -> logical module with one function @forward. Weights stay in their files.
#pragma once
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "ir/graph.h"

namespace tessera {

struct ImportOptions {
  std::filesystem::path model;
  std::map<std::string, std::int64_t> bindings;  // --bind batch=8,sequence=16
  std::map<std::string, Shape> input_shapes;     // --bind input_ids=8x16
  std::vector<std::string> freeze, trainable;    // regular expressions over parameter names
  bool retie = true;  // a transposed copy of a lookup table is the same parameter
};

struct ImportResult {
  Module module;
  std::vector<std::string> remarks;
  // Parameters whose bytes lie in no file as they are needed (typed protobuf fields): by tensor
  // name. Their sources name the file kInlineWeightsFile, which codegen writes into the plan.
  std::map<std::string, Tensor> inline_weights;
  // External files that are not there: the model can be planned, not run.
  std::set<std::string> absent;
};

inline constexpr std::string_view kInlineWeightsFile = "weights.safetensors";

// Throws CompileError for anything that is not a model this version can compile, naming file, node,
// tensor, values.
ImportResult import_onnx(const ImportOptions& options);

// ONNX op types that can be imported, "domain::type" for other domains than the default one.
// Sorted.
std::vector<std::string> supported_ops();

}  // namespace tessera
