// The sweep: inputs are bound, initializers become parameters or constants, then one pass over the
// nodes in topological order translates each and folds what is known. What remains has static
// shapes.
#include "frontend/import_onnx.h"

#include <onnx/inliner/inliner.h>
#include <onnx/onnx_pb.h>

#include <algorithm>
#include <unordered_map>

#include "frontend/dimensions.h"
#include "frontend/graph_order.h"
#include "frontend/importer.h"
#include "frontend/parameters.h"
#include "ir/base/diag.h"
#include "ir/base/text.h"
#include "ir/op_def.h"
#include "runtime/cpu/evaluate.h"

namespace tessera {
namespace {

constexpr std::int64_t kLargestFold = 1 << 22;
constexpr int kMaxNodes = 1'000'000;

// Evaluates an op on constants, unless its result is large. Fills and what spreads them stay as
// they are.
std::vector<Tensor> fold(const Module& module, const Op& op) {
  if (op.kind == OpKind::Fill || op.kind == OpKind::Constant || op.kind == OpKind::Random)
    return {};
  std::vector<Type> types;
  for (const auto& result : op.results) {
    if (elements(result->type.shape) > kLargestFold) return {};
    types.push_back(result->type);
  }
  std::vector<Tensor> operands;
  for (const Value* operand : op.operands) {
    if (elements(operand->type.shape) > kLargestFold) return {};
    if (const Tensor* tensor = constant_of(module, operand)) {
      operands.push_back(*tensor);
    } else {
      const Type type = operand->type;
      operands.push_back(evaluate(OpKind::Fill, operand->def->attrs, {}, {&type, 1})[0]);
    }
  }
  return evaluate(op.kind, op.attrs, operands, types);
}

class Importer {
 public:
  explicit Importer(const ImportOptions& options)
      : options_(options),
        file_(options.model),
        bindings_(options.bindings),
        builder_(result_.module, *result_.module.add_func("forward")) {
    builder_.set_folder([this](const Op& op) { return fold(result_.module, op); });
  }

  ImportResult run() {
    prepare_graph();
    const onnx::GraphProto& graph = file_.proto().graph();
    add_inputs(graph);
    add_initializers(graph);
    for (const int at : topological_order(graph, where())) translate(graph.node(at));
    add_outputs(graph);
    bindings_.check_all_used(where());
    apply_trainable_patterns(result_.module, options_);
    result_.module.notes["model"] = file_.path().filename().string();
    return std::move(result_);
  }

 private:
  std::string where() const { return file_.path().string(); }
  Func& func() { return builder_.func(); }

  void prepare_graph() {
    onnx::ModelProto& model = file_.proto();
    if (model.graph().node_size() > kMaxNodes)
      throw CompileError(where(), str("more than ", kMaxNodes, " nodes"));
    if (model.functions_size() > 0) {
      check_expansion(model, kMaxNodes, where());
      try {
        onnx::inliner::InlineLocalFunctions(model, false);
      } catch (const std::exception& error) {
        throw CompileError(where(), "local functions cannot be inlined", {error.what()});
      }
    }
    opset_ = 0;
    for (const auto& import : model.opset_import()) {
      if (import.domain().empty() || import.domain() == "ai.onnx") opset_ = import.version();
    }
    if (opset_ < 1)
      throw CompileError(where(), "the model imports no version of the default operator set");
    check_supported(model.graph());
  }

  static std::string key_of(const onnx::NodeProto& node) {
    const bool plain = node.domain().empty() || node.domain() == "ai.onnx";
    return plain ? node.op_type() : str(node.domain(), "::", node.op_type());
  }

  void check_supported(const onnx::GraphProto& graph) const {
    std::map<std::string, std::pair<int, std::string>> missing;  // op -> count, first node
    for (const onnx::NodeProto& node : graph.node()) {
      const std::string key = key_of(node);
      if (translators().contains(key) || key == "If") continue;
      auto& entry = missing[key];
      if (entry.first++ == 0) entry.second = name_of(node);
    }
    if (missing.empty()) return;
    const auto& [op, first] = *missing.begin();
    throw CompileError(str(where(), ": node '", first.second, "' (", op, ")"),
                       "this op is not supported",
                       {str("the model needs these unsupported ops: ",
                            join(missing, ", ",
                                 [](const auto& item) {
                                   return str(item.first, " (", item.second.first, " nodes)");
                                 })),
                        "`tessera --list-ops` lists what is supported"});
  }

  static std::string name_of(const onnx::NodeProto& node) {
    if (!node.name().empty()) return node.name();
    return node.output_size() > 0 ? node.output(0) : "";
  }

  void define(const std::string& name, Value* value) {
    if (name.empty()) return;
    if (!values_.emplace(name, value).second)
      throw CompileError(where(), str("the name ", in_quotes(name), " is defined twice"));
  }

  void add_inputs(const onnx::GraphProto& graph) {
    std::set<std::string> initializers, shaped;
    for (const auto& tensor : graph.initializer()) initializers.insert(tensor.name());
    for (const auto& input : graph.input()) {
      if (initializers.contains(input.name())) continue;
      const std::string place = str(where(), ": input ", in_quotes(input.name()));
      if (!input.type().has_tensor_type()) throw CompileError(place, "is not a tensor");
      const DType dtype = dtype_of(input.type().tensor_type().elem_type(), place);
      Value* arg = func().add_arg(sanitised_name(input.name()),
                                  Type(dtype, input_shape(input, place)), ArgKind::Input);
      result_.module.notes["input." + arg->name] = input.name();
      define(input.name(), arg);
      shaped.insert(input.name());
    }
    for (const auto& [name, shape] : options_.input_shapes) {
      if (!shaped.contains(name))
        throw CompileError("--bind", str("the model has no input ", in_quotes(name)),
                           {str("inputs: ", join(shaped, ", "))});
    }
  }

  Shape input_shape(const onnx::ValueInfoProto& input, const std::string& place) {
    const auto& proto = input.type().tensor_type().shape();
    const auto given = options_.input_shapes.find(input.name());
    Shape shape;
    for (int d = 0; d < proto.dim_size(); ++d) {
      const auto& dim = proto.dim(d);
      if (given != options_.input_shapes.end()) {
        if (bindings_.has(dim.dim_param()))
          bindings_.resolve(dim.dim_param(), place);  // a use of the binding
        if (given->second.size() != static_cast<std::size_t>(proto.dim_size())) {
          throw CompileError("--bind", str(in_quotes(input.name()), " has ", proto.dim_size(),
                                           " dimensions, ", given->second.size(), " are given"));
        }
        shape.push_back(given->second[static_cast<std::size_t>(d)]);
      } else if (dim.has_dim_value()) {
        shape.push_back(dim.dim_value());
      } else if (dim.has_dim_param() && !dim.dim_param().empty()) {
        shape.push_back(bindings_.resolve(dim.dim_param(), place));
      } else {
        throw CompileError(place, str("dimension ", d, " has neither size nor name"),
                           {str("bind the whole input: --bind ", input.name(), "=4x16")});
      }
    }
    if (!sizes_are_sane(shape))
      throw CompileError(place,
                         str("dimensions (", join(shape, ","), ") are negative or too large"));
    return shape;
  }

  void add_initializers(const onnx::GraphProto& graph) {
    if (graph.sparse_initializer_size() > 0)
      throw CompileError(where(), "sparse initializers are not supported");
    const ParameterRules rules(file_, graph, options_);
    std::map<std::string, const onnx::TensorProto*> tensors;
    for (const auto& tensor : graph.initializer()) {
      if (!tensors.emplace(tensor.name(), &tensor).second)
        throw CompileError(where(), str("two initializers are called ", in_quotes(tensor.name())));
    }
    // Equal initializers are stored once and reached through Identity nodes that bear the other
    // parameters' names.
    std::map<std::string, std::vector<std::string>> renamed;
    std::set<std::string> read_directly;
    for (const auto& node : graph.node()) {
      for (const std::string& input : node.input()) {
        const bool renames = node.op_type() == "Identity" && tensors.contains(input) &&
                             rules.role(input).parameter && node.output_size() == 1;
        if (renames) {
          renamed[input].push_back(node.output(0));
          identities_.insert(&node);
        } else {
          read_directly.insert(input);
        }
      }
    }
    for (const auto& tensor : graph.initializer()) {
      if (!rules.role(tensor.name()).parameter) {
        define(tensor.name(), add_constant(tensor));
        result_.remarks.push_back(
            str("constant ", in_quotes(tensor.name()), ": ", rules.role(tensor.name()).reason));
        continue;
      }
      for (const std::string& name : renamed[tensor.name()])
        define(name, add_parameter(tensor, name, "its own copy of " + tensor.name()));
      if (rules.ties().contains(tensor.name())) continue;
      const bool direct = read_directly.contains(tensor.name()) || renamed[tensor.name()].empty();
      if (direct)
        define(tensor.name(),
               add_parameter(tensor, tensor.name(), rules.role(tensor.name()).reason));
    }
    for (const auto& [copy, tie] : rules.ties()) {
      Value* table = values_.at(tie.table);
      if (!read_directly.contains(copy)) continue;
      define(copy, tie.transposed ? builder_.transpose(table, {1, 0}) : table);
      result_.module.weights.at(table->name).aliases.push_back(copy);
      result_.remarks.push_back(str("tied ", in_quotes(copy), ": ",
                                    tie.transposed ? "a transposed" : "a", " copy of ",
                                    in_quotes(tie.table), ", one parameter"));
    }
  }

  Value* add_constant(const onnx::TensorProto& tensor) {
    const Shape shape = shape_of(tensor, str(where(), ": tensor ", in_quotes(tensor.name())));
    constexpr std::int64_t kLargestConstant = 1 << 28;
    if (elements(shape) > kLargestConstant)
      throw CompileError(where(), str("constant ", in_quotes(tensor.name()), " is too large"),
                         {"make it a parameter with --trainable"});
    return builder_.constant(file_.read(tensor));
  }

  Value* add_parameter(const onnx::TensorProto& tensor, const std::string& name,
                       const std::string& reason) {
    const std::string place = str(where(), ": tensor ", in_quotes(tensor.name()));
    WeightSource source;
    source.tensor = name;
    source.dtype = dtype_of(tensor.data_type(), place);
    source.shape = shape_of(tensor, place);
    if (!file_.has_data(tensor)) result_.absent.insert(file_.location(tensor).first);
    // Without weights nothing will run, and other types can be planned.
    const bool runs = source.dtype == DType::F32 || source.dtype == DType::F64;
    if (!runs && file_.has_data(tensor)) {
      throw CompileError(
          place, str("parameters of type ", tessera::name(source.dtype), " are not supported yet"),
          {"export the model in float32"});
    }
    const auto [file, range] = file_.location(tensor);
    source.file = file;
    source.offset = range.offset;
    source.bytes = range.size;
    if (file.empty()) {
      const Tensor values = file_.read(tensor);
      source.file = kInlineWeightsFile;
      source.bytes = values.bytes();
      result_.inline_weights[name] = values;
    }
    Value* arg =
        func().add_arg(sanitised_name(name), Type(source.dtype, source.shape), ArgKind::Param);
    result_.module.weights[arg->name] = source;
    result_.remarks.push_back(
        str("parameter ", in_quotes(name), " ", to_text(arg->type, Grid()), ": ", reason));
    return arg;
  }

  Value* lookup(const std::string& name, const onnx::NodeProto& node) const {
    if (name.empty()) return nullptr;
    const auto found = values_.find(name);
    if (found == values_.end())
      throw CompileError(str(where(), ": node '", name_of(node), "'"),
                         str("input ", in_quotes(name), " is not defined"));
    return found->second;
  }

  void translate(const onnx::NodeProto& node) {
    if (identities_.contains(&node)) return;
    if (node.op_type() == "If") return translate_if(node);
    std::vector<Value*> inputs;
    for (const std::string& input : node.input()) inputs.push_back(lookup(input, node));
    builder_.set_origin(name_of(node));
    builder_.set_name(sanitised_name(node.output_size() > 0 ? node.output(0) : name_of(node)));
    Node view(node, opset_, std::move(inputs), builder_, file_);
    try {
      const auto translator = translators().find(key_of(node));
      if (translator == translators().end()) view.fail("this op is not supported");
      translator->second(view);
    } catch (const CompileError& error) {
      std::vector<std::string> notes = error.diagnostic().notes;
      if (!options_.bindings.empty()) notes.push_back(str("bound: ", bindings_.text()));
      throw CompileError(str(where(), ": node '", name_of(node), "' (", key_of(node), ")"),
                         error.diagnostic().message, notes);
    }
    for (int i = 0; i < node.output_size(); ++i) {
      const auto at = static_cast<std::size_t>(i);
      if (node.output(i).empty()) continue;
      Value* value = at < view.outputs().size() ? view.outputs()[at] : nullptr;
      if (value == nullptr) {
        if (is_read(node.output(i)))
          throw CompileError(str(where(), ": node '", name_of(node), "' (", key_of(node), ")"),
                             str("output ", i, " is not supported"));
        continue;
      }
      define(node.output(i), value);
    }
  }

  bool is_read(const std::string& name) const {
    const onnx::GraphProto& graph = file_.model_graph();
    for (const auto& node : graph.node()) {
      if (std::ranges::find(node.input(), name) != node.input().end()) return true;
    }
    return std::ranges::any_of(graph.output(),
                               [&](const auto& output) { return output.name() == name; });
  }

  // The taken branch of an If whose condition is known, inlined.
  void translate_if(const onnx::NodeProto& node) {
    const std::string place = str(where(), ": node '", name_of(node), "' (If)");
    if (node.input_size() != 1) throw CompileError(place, "needs one input");
    const auto condition = splat_of(result_.module, lookup(node.input(0), node));
    if (!condition)
      throw CompileError(place, "the condition is not known at compile time",
                         {"control flow that depends on values is not supported"});
    const char* wanted = *condition != 0 ? "then_branch" : "else_branch";
    if (++depth_ > 32) throw CompileError(place, "branches are nested too deeply");
    for (const auto& attr : node.attribute()) {
      if (attr.name() != wanted || !attr.has_g()) continue;
      const onnx::GraphProto& branch = attr.g();
      check_supported(branch);
      const auto outer = values_;
      for (const auto& tensor : branch.initializer()) values_[tensor.name()] = add_constant(tensor);
      for (const int at : topological_order(branch, place)) translate(branch.node(at));
      std::vector<Value*> outputs;
      for (const auto& output : branch.output()) outputs.push_back(lookup(output.name(), node));
      values_ = outer;
      if (outputs.size() < static_cast<std::size_t>(node.output_size()))
        throw CompileError(place, "the branch lacks outputs");
      for (int i = 0; i < node.output_size(); ++i)
        define(node.output(i), outputs[static_cast<std::size_t>(i)]);
      --depth_;
      return;
    }
    throw CompileError(place, str("has no ", wanted));
  }

  void add_outputs(const onnx::GraphProto& graph) {
    if (graph.output_size() == 0) throw CompileError(where(), "the graph has no output");
    for (const auto& output : graph.output()) {
      const auto found = values_.find(output.name());
      if (found == values_.end())
        throw CompileError(where(), str("output ", in_quotes(output.name()), " is not defined"));
      func().results.push_back({found->second, output.name(), false});
    }
  }

  const ImportOptions& options_;
  ModelFile file_;
  DimBindings bindings_;
  ImportResult result_;
  Builder builder_;
  std::int64_t opset_ = 0;
  int depth_ = 0;
  std::unordered_map<std::string, Value*> values_;
  std::set<const onnx::NodeProto*> identities_;
};

}  // namespace

ImportResult import_onnx(const ImportOptions& options) { return Importer(options).run(); }

}  // namespace tessera
