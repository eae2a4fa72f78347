// Typed, checked access to one node.
#include <onnx/onnx_pb.h>

#include <algorithm>

#include "frontend/importer.h"
#include "ir/base/diag.h"
#include "ir/base/text.h"
#include "runtime/cpu/evaluate.h"

namespace tessera {
namespace {

const onnx::AttributeProto* find_attr(const onnx::NodeProto& node, const char* name) {
  for (const onnx::AttributeProto& attr : node.attribute()) {
    if (attr.name() == name) return &attr;
  }
  return nullptr;
}

}  // namespace

const std::string& Node::type() const { return proto_.op_type(); }
std::size_t Node::output_count() const { return static_cast<std::size_t>(proto_.output_size()); }

void Node::fail(const std::string& message, std::vector<std::string> notes) const {
  throw CompileError("", message, std::move(notes));
}

Value* Node::in(std::size_t i) const {
  if (!has(i)) fail(str("input ", i, " is missing"));
  return inputs_[i];
}

std::optional<Tensor> Node::constant(std::size_t i) const {
  Value* value = in(i);
  if (const Tensor* tensor = constant_of(b.module(), value)) return *tensor;
  constexpr std::int64_t kLargest = 1 << 20;
  if (value->def == nullptr || value->def->kind != OpKind::Fill ||
      elements(value->type.shape) > kLargest)
    return std::nullopt;
  const Type type = value->type;
  return evaluate(OpKind::Fill, value->def->attrs, {}, {&type, 1})[0];
}

Ints Node::ints_in(std::size_t i) const {
  const auto tensor = constant(i);
  if (!tensor) {
    fail(str("input ", i, " (%", in(i)->name,
             ") must be known at compile time, it is computed from the inputs"),
         {"shapes must follow from --bind; values of inputs cannot decide them"});
  }
  if (!is_integer(tensor->dtype()) || tensor->shape().size() > 1)
    fail(str("input ", i, " must be a list of integers"));
  Ints values;
  for (std::int64_t k = 0; k < tensor->size(); ++k) {
    values.push_back(tensor->dtype() == DType::I64
                         ? tensor->view<std::int64_t>()[static_cast<std::size_t>(k)]
                         : static_cast<std::int64_t>(tensor->number(k)));
  }
  return values;
}

std::int64_t Node::int_in(std::size_t i) const {
  const auto tensor = constant(i);
  if (!tensor || tensor->size() != 1 || !is_integer(tensor->dtype()))
    fail(str("input ", i, " must be one integer known at compile time"));
  return tensor->dtype() == DType::I64 ? tensor->view<std::int64_t>()[0]
                                       : static_cast<std::int64_t>(tensor->number(0));
}

double Node::number_in(std::size_t i) const {
  const auto tensor = constant(i);
  if (!tensor || tensor->size() != 1)
    fail(str("input ", i, " must be one number known at compile time"));
  return tensor->number(0);
}

bool Node::has_attr(const char* name) const { return find_attr(proto_, name) != nullptr; }

std::int64_t Node::attr(const char* name, std::int64_t fallback) const {
  const auto* found = find_attr(proto_, name);
  if (found == nullptr) return fallback;
  if (found->type() != onnx::AttributeProto::INT)
    fail(str("attribute ", name, " is not an integer"));
  return found->i();
}

double Node::attr(const char* name, double fallback) const {
  const auto* found = find_attr(proto_, name);
  if (found == nullptr) return fallback;
  if (found->type() != onnx::AttributeProto::FLOAT)
    fail(str("attribute ", name, " is not a float"));
  return static_cast<double>(found->f());
}

std::string Node::attr(const char* name, const std::string& fallback) const {
  const auto* found = find_attr(proto_, name);
  if (found == nullptr) return fallback;
  if (found->type() != onnx::AttributeProto::STRING)
    fail(str("attribute ", name, " is not a string"));
  return found->s();
}

Ints Node::attr_ints(const char* name, const Ints& fallback) const {
  const auto* found = find_attr(proto_, name);
  if (found == nullptr) return fallback;
  if (found->type() != onnx::AttributeProto::INTS)
    fail(str("attribute ", name, " is not a list of integers"));
  return {found->ints().begin(), found->ints().end()};
}

std::vector<double> Node::attr_floats(const char* name) const {
  const auto* found = find_attr(proto_, name);
  if (found == nullptr) return {};
  return {found->floats().begin(), found->floats().end()};
}

std::optional<Tensor> Node::attr_tensor(const char* name) const {
  const auto* found = find_attr(proto_, name);
  if (found == nullptr) return std::nullopt;
  if (found->type() != onnx::AttributeProto::TENSOR)
    fail(str("attribute ", name, " is not a tensor"));
  return file_.read(found->t());
}

std::int64_t Node::axis(std::int64_t value, std::size_t rank) const {
  const auto size = static_cast<std::int64_t>(rank);
  if (value < -size || value >= size) fail(str("axis ", value, " of a tensor of rank ", rank));
  return value < 0 ? value + size : value;
}

Ints Node::axes(Ints values, std::size_t rank) const {
  for (std::int64_t& value : values) value = axis(value, rank);
  std::ranges::sort(values);
  if (std::ranges::adjacent_find(values) != values.end()) fail("an axis is named twice");
  return values;
}

void Node::set(std::size_t i, Value* value) {
  if (outputs_.size() <= i) outputs_.resize(i + 1, nullptr);
  outputs_[i] = value;
}

Shape broadcast_shape(const Node& node, const std::vector<Value*>& values) {
  std::size_t rank = 0;
  for (const Value* value : values) rank = std::max(rank, value->type.rank());
  Shape shape(rank, 1);
  for (const Value* value : values) {
    for (std::size_t d = 0; d < value->type.rank(); ++d) {
      std::int64_t& size = shape[rank - value->type.rank() + d];
      const std::int64_t own = value->type.shape[d];
      if (own == size || own == 1) continue;
      if (size != 1) {
        node.fail(str("shapes ",
                      join(values, " and ",
                           [](const Value* v) { return str("(", join(v->type.shape, ","), ")"); }),
                      " do not broadcast"));
      }
      size = own;
    }
  }
  return shape;
}

Value* binary(Node& node, OpKind kind, Value* a, Value* b) {
  const Shape shape = broadcast_shape(node, {a, b});
  return node.b.emit(kind, {node.b.broadcast_to(a, shape), node.b.broadcast_to(b, shape)});
}

Value* keep_dims(Node& node, Value* reduced, const Shape& original, const Ints& dims, bool keep) {
  if (!keep) return reduced;
  Shape shape = original;
  for (std::int64_t dim : dims) shape[static_cast<std::size_t>(dim)] = 1;
  return node.b.reshape(reduced, shape);
}

const TranslatorTable& translators() {
  static const TranslatorTable kTable = [] {
    TranslatorTable table;
    add_elementwise_ops(table);
    add_shape_ops(table);
    add_movement_ops(table);
    add_index_ops(table);
    add_math_ops(table);
    add_row_ops(table);
    add_attention_ops(table);
    return table;
  }();
  return kTable;
}

std::vector<std::string> supported_ops() {
  std::vector<std::string> names{"If"};
  for (const auto& [name, translator] : translators()) names.push_back(name);
  std::ranges::sort(names);
  return names;
}

const Value* input_behind(const Value* ids) {
  while (ids->def != nullptr) {
    const Op& op = *ids->def;
    const bool same = op.kind == OpKind::Reshape || op.kind == OpKind::Transpose ||
                      op.kind == OpKind::Broadcast ||
                      (op.kind == OpKind::Cast && is_integer(op.operand(0)->type.dtype));
    if (!same) return nullptr;
    ids = op.operand(0);
  }
  return ids;
}

void note_range(Module& module, const Value& input, std::int64_t size,
                std::optional<std::int64_t> ignored) {
  std::string& note = module.notes["range." + input.name];
  const std::int64_t known = note.empty() ? size : std::stoll(note.substr(note.find(',') + 1));
  note = str("0,", std::min(size, known));
  if (ignored) module.notes["ignored." + input.name] = str(*ignored);
}

}  // namespace tessera
