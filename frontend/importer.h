// The state of one import: ONNX names -> IR values, and what translators need of the node at hand.
// Internal to frontend.
#pragma once
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "frontend/import_onnx.h"
#include "frontend/model_file.h"
#include "ir/builder.h"

namespace onnx {
class GraphProto;
class NodeProto;
}  // namespace onnx

namespace tessera {

// One ONNX node during translation. Every accessor checks and throws CompileError (the sweep adds
// file and node).
class Node {
 public:
  Node(const onnx::NodeProto& proto, std::int64_t opset, std::vector<Value*> inputs,
       Builder& builder, const ModelFile& file)
      : b(builder), proto_(proto), file_(file), opset_(opset), inputs_(std::move(inputs)) {}

  Builder& b;

  std::int64_t opset() const { return opset_; }
  const std::string& type() const;
  std::size_t input_count() const { return inputs_.size(); }
  std::size_t output_count() const;
  bool has(std::size_t i) const { return i < inputs_.size() && inputs_[i] != nullptr; }
  Value* in(std::size_t i) const;                       // present, else an error naming the input
  std::optional<Tensor> constant(std::size_t i) const;  // its value if it is known at compile time
  Ints ints_in(std::size_t i) const;  // a compile-time list of integers; else an error
  std::int64_t int_in(std::size_t i) const;
  double number_in(std::size_t i) const;

  bool has_attr(const char* name) const;
  std::int64_t attr(const char* name, std::int64_t fallback) const;
  double attr(const char* name, double fallback) const;
  std::string attr(const char* name, const std::string& fallback) const;
  Ints attr_ints(const char* name, const Ints& fallback = {}) const;
  std::vector<double> attr_floats(const char* name) const;
  std::optional<Tensor> attr_tensor(const char* name) const;

  [[noreturn]] void fail(const std::string& message, std::vector<std::string> notes = {}) const;
  // axis in [-rank, rank) -> [0, rank)
  std::int64_t axis(std::int64_t value, std::size_t rank) const;
  Ints axes(Ints values, std::size_t rank) const;  // normalised, ascending, without repeats

  void set(std::size_t i, Value* value);
  const std::vector<Value*>& outputs() const { return outputs_; }

 private:
  const onnx::NodeProto& proto_;
  const ModelFile& file_;
  std::int64_t opset_;
  std::vector<Value*> inputs_;
  std::vector<Value*> outputs_;
};

using Translator = void (*)(Node& node);
using TranslatorTable =
    std::map<std::string, Translator>;  // "MatMul", "com.microsoft::FusedMatMul"

// One table per family (frontend/ops_*.cpp).
void add_elementwise_ops(TranslatorTable& table);
void add_shape_ops(TranslatorTable& table);
void add_movement_ops(TranslatorTable& table);
void add_index_ops(TranslatorTable& table);
void add_math_ops(TranslatorTable& table);
void add_row_ops(TranslatorTable& table);
void add_attention_ops(TranslatorTable& table);
const TranslatorTable& translators();

// The graph input whose elements `ids` are, all of them and unchanged; else null.
const Value* input_behind(const Value* ids);
// The runtime checks ids before it runs a step: in [0, size), the smallest one that is noted, or
// equal to `ignored`.
void note_range(Module& module, const Value& input, std::int64_t size,
                std::optional<std::int64_t> ignored = std::nullopt);

// Numpy broadcasting, used by several families.
Shape broadcast_shape(const Node& node, const std::vector<Value*>& values);
Value* binary(Node& node, OpKind kind, Value* a, Value* b);
// Divides by a constant or multiplies: x * c of x's dtype.
Value* keep_dims(Node& node, Value* reduced, const Shape& original, const Ints& dims, bool keep);

}  // namespace tessera
