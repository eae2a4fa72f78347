#include "frontend/parameters.h"

#include <onnx/onnx_pb.h>

#include <algorithm>
#include <regex>
#include <set>

#include "ir/base/diag.h"
#include "ir/base/text.h"

namespace tessera {
namespace {

constexpr int kMaxDepth = 64;
constexpr std::int64_t kLargestMask = 1 << 22;

std::regex compiled(const std::string& pattern, const char* flag) {
  try {
    return std::regex(pattern);
  } catch (const std::regex_error&) {
    throw CompileError(flag, str("'", pattern, "' is not a regular expression"));
  }
}

bool matches_any(const std::vector<std::string>& patterns, const std::string& name,
                 const char* flag) {
  return std::ranges::any_of(
      patterns, [&](const std::string& p) { return std::regex_search(name, compiled(p, flag)); });
}

// Ops that only move or retype their first input.
bool passes_through(const onnx::NodeProto& node, int input) {
  static const std::set<std::string> kOps{"Identity", "Transpose", "Reshape",  "Unsqueeze",
                                          "Squeeze",  "Cast",      "CastLike", "Flatten",
                                          "Slice",    "Split",     "Expand"};
  return input == 0 && kOps.contains(node.op_type());
}

bool is_weight_use(const onnx::NodeProto& node, int input) {
  static const std::map<std::string, std::set<int>> kUses{{"MatMul", {0, 1}},
                                                          {"Gemm", {0, 1, 2}},
                                                          {"Conv", {1, 2}},
                                                          {"Add", {0, 1}},
                                                          {"Sub", {0, 1}},
                                                          {"Mul", {0, 1}},
                                                          {"Div", {0, 1}},
                                                          {"Gather", {0}},
                                                          {"LayerNormalization", {1, 2}},
                                                          {"RMSNormalization", {1}},
                                                          {"SimplifiedLayerNormalization", {1}},
                                                          {"Einsum", {0, 1, 2, 3}},
                                                          {"Concat", {0, 1, 2, 3}},
                                                          {"PRelu", {1}},
                                                          {"Attention", {0, 1, 2}}};
  const auto found = kUses.find(node.op_type());
  return found != kUses.end() && found->second.contains(input);
}

bool is_trig(const onnx::NodeProto& node) {
  return node.op_type() == "Sin" || node.op_type() == "Cos";
}

template <class T>
bool equal_copies(const Tensor& a, const Tensor& table, bool transposed) {
  const auto x = a.view<T>();
  const auto t = table.view<T>();
  if (!transposed) return std::equal(x.begin(), x.end(), t.begin());
  const auto rows = static_cast<std::size_t>(table.shape()[0]),
             columns = static_cast<std::size_t>(table.shape()[1]);
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t c = 0; c < columns; ++c) {
      if (x[c * rows + r] != t[r * columns + c]) return false;
    }
  }
  return true;
}

template <class T>
bool is_splat(const Tensor& tensor) {
  const auto values = tensor.view<T>();
  return std::ranges::all_of(values, [&](T v) { return v == values[0]; });
}

bool same_content(const Tensor& a, const Tensor& table, bool transposed) {
  if (byte_size(a.dtype()) == 8)
    return !is_splat<std::uint64_t>(table) && equal_copies<std::uint64_t>(a, table, transposed);
  if (byte_size(a.dtype()) == 4)
    return !is_splat<std::uint32_t>(table) && equal_copies<std::uint32_t>(a, table, transposed);
  return !is_splat<std::uint16_t>(table) && equal_copies<std::uint16_t>(a, table, transposed);
}

}  // namespace

ParameterRules::ParameterRules(const ModelFile& file, const onnx::GraphProto& graph,
                               const ImportOptions& options)
    : file_(file), graph_(graph), options_(options) {
  for (int n = 0; n < graph.node_size(); ++n) {
    for (int i = 0; i < graph.node(n).input_size(); ++i)
      readers_[graph.node(n).input(i)].push_back({n, i});
  }
  for (const onnx::TensorProto& tensor : graph.initializer())
    roles_[tensor.name()] = decide(tensor);
  if (options.retie) find_ties();
}

void ParameterRules::collect_uses(const std::string& name, std::vector<Use>& uses,
                                  int depth) const {
  const auto readers = readers_.find(name);
  if (readers == readers_.end() || depth > kMaxDepth) return;
  for (const Use& use : readers->second) {
    const onnx::NodeProto& node = graph_.node(use.node);
    if (!passes_through(node, use.input)) {
      uses.push_back(use);
      continue;
    }
    for (const std::string& output : node.output()) collect_uses(output, uses, depth + 1);
  }
}

// Whether everything that is computed from this value passes a sine or cosine before anything else:
// rotary frequencies.
bool ParameterRules::leads_only_to_trig(const std::string& name, int depth) const {
  const auto readers = readers_.find(name);
  if (readers == readers_.end() || depth > kMaxDepth) return false;
  return std::ranges::all_of(readers->second, [&](const Use& use) {
    const onnx::NodeProto& node = graph_.node(use.node);
    if (is_trig(node)) return true;
    static const std::set<std::string> kCarriers{"Mul", "MatMul", "Einsum", "Concat", "Add"};
    if (!passes_through(node, use.input) && !kCarriers.contains(node.op_type())) return false;
    return std::ranges::all_of(node.output(), [&](const std::string& output) {
      return leads_only_to_trig(output, depth + 1);
    });
  });
}

bool ParameterRules::has_mask_values(const onnx::TensorProto& tensor) const {
  if (elements(shape_of(tensor, tensor.name())) > kLargestMask || !file_.has_data(tensor))
    return false;
  const Tensor values = file_.read(tensor);
  for (std::int64_t i = 0; i < values.size(); ++i) {
    if (!(values.number(i) > -1e4 && values.number(i) < 1e30)) return true;
  }
  return false;
}

InitializerRole ParameterRules::decide(const onnx::TensorProto& tensor) const {
  const std::string where = str(file_.path().string(), ": tensor ", in_quotes(tensor.name()));
  const DType dtype = dtype_of(tensor.data_type(), where);
  const Shape shape = shape_of(tensor, where);
  if (!is_float(dtype)) return {false, "integers or booleans"};
  if (matches_any(options_.trainable, tensor.name(), "--trainable")) return {true, "--trainable"};
  if (shape.empty() || elements(shape) <= 1) return {false, "a scalar"};
  std::vector<Use> uses;
  collect_uses(tensor.name(), uses, 0);
  if (uses.empty()) return {false, "nothing reads it"};
  const auto use = std::ranges::find_if(
      uses, [&](const Use& u) { return is_weight_use(graph_.node(u.node), u.input); });
  if (use == uses.end())
    return {false, str("read by ", graph_.node(uses[0].node).op_type(), " only")};
  if (leads_only_to_trig(tensor.name(), 0)) return {false, "frequencies of a sine or cosine"};
  const std::string& op = graph_.node(use->node).op_type();
  if ((op == "Add" || op == "Sub") && has_mask_values(tensor)) return {false, "values of a mask"};
  return {true, str("read by ", op)};
}

void ParameterRules::find_ties() {
  std::map<std::string, const onnx::TensorProto*> tensors;
  for (const onnx::TensorProto& tensor : graph_.initializer()) tensors[tensor.name()] = &tensor;
  std::vector<const onnx::TensorProto*> tables;
  for (const onnx::TensorProto& tensor : graph_.initializer()) {
    const auto readers = readers_.find(tensor.name());
    if (!roles_[tensor.name()].parameter || tensor.dims_size() != 2 || readers == readers_.end())
      continue;
    const bool looked_up = std::ranges::any_of(readers->second, [&](const Use& u) {
      return graph_.node(u.node).op_type() == "Gather" && u.input == 0;
    });
    if (looked_up) tables.push_back(&tensor);
  }
  for (const onnx::TensorProto* table : tables) {
    std::optional<Tensor> values;
    for (const onnx::TensorProto& other : graph_.initializer()) {
      const bool is_table = std::ranges::find(tables, &other) != tables.end();
      if (is_table || !roles_[other.name()].parameter || other.dims_size() != 2 ||
          other.data_type() != table->data_type())
        continue;
      const bool same = other.dims(0) == table->dims(0) && other.dims(1) == table->dims(1);
      const bool transposed = other.dims(0) == table->dims(1) && other.dims(1) == table->dims(0);
      if ((!same && !transposed) || ties_.contains(other.name())) continue;
      if (!file_.has_data(*table) || !file_.has_data(other)) continue;
      if (!values) values = file_.read(*table);
      const Tensor copy = file_.read(other);
      if (same && same_content(copy, *values, false)) {
        ties_[other.name()] = {table->name(), false};
      } else if (transposed && same_content(copy, *values, true)) {
        ties_[other.name()] = {table->name(), true};
      }
    }
  }
}

void apply_trainable_patterns(Module& module, const ImportOptions& options) {
  const auto apply = [&](const std::vector<std::string>& patterns, const char* flag,
                         bool trainable) {
    for (const std::string& pattern : patterns) {
      const std::regex regex = compiled(pattern, flag);
      bool any = false;
      for (auto& [arg, source] : module.weights) {
        if (!std::regex_search(source.tensor, regex)) continue;
        source.trainable = trainable;
        any = true;
      }
      if (!any)
        throw CompileError(flag, str("'", pattern, "' matches no parameter"),
                           {"parameters are listed by `tessera compile --remarks`"});
    }
  };
  apply(options.freeze, "--freeze", false);
  apply(options.trainable, "--trainable", true);
}

}  // namespace tessera
