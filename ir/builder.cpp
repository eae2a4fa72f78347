#include "ir/builder.h"

#include <algorithm>
#include <numeric>

#include "ir/base/diag.h"
#include "ir/base/text.h"
#include "ir/op_def.h"

namespace tessera {
namespace {

bool is_fill(const Value* value) {
  return value->def != nullptr && value->def->kind == OpKind::Fill;
}

}  // namespace

std::vector<Value*> Builder::finish(Op* op) {
  op->origin = origin_;
  std::vector<Value*> results;
  const bool foldable =
      folder_ && op->kind != OpKind::Constant && std::ranges::all_of(op->operands, [&](Value* v) {
        return v->def != nullptr &&
               (v->def->kind == OpKind::Constant || v->def->kind == OpKind::Fill);
      });
  if (foldable) {
    const std::vector<Tensor> tensors = folder_(*op);
    if (!tensors.empty()) {
      TESSERA_CHECK(tensors.size() == op->results.size(), "folder gave another count of results");
      func_.erase(op);
      for (const Tensor& tensor : tensors) results.push_back(constant(tensor));
      return results;
    }
  }
  for (const auto& result : op->results) results.push_back(result.get());
  return results;
}

std::vector<Value*> Builder::emit_all(OpKind kind, std::vector<Value*> operands, AttrList attrs) {
  TESSERA_CHECK(!op_def(kind).explicit_type, mnemonic(kind), " needs an explicit result type");
  Op probe;  // carries operands and attributes for inference; not in any list, so use lists stay
             // exact
  probe.kind = kind;
  probe.attrs = attrs;
  probe.operands = operands;
  probe.origin = origin_;
  std::vector<Type> types = infer_types(probe);
  const std::string name = name_.empty() ? std::string(mnemonic(kind)) : name_;
  return finish(
      func_.insert(where_, kind, std::move(operands), std::move(attrs), std::move(types), name));
}

Value* Builder::emit(OpKind kind, std::vector<Value*> operands, AttrList attrs) {
  return emit_all(kind, std::move(operands), std::move(attrs)).front();
}

Value* Builder::emit_typed(OpKind kind, std::vector<Value*> operands, AttrList attrs, Type type) {
  TESSERA_CHECK(op_def(kind).explicit_type, mnemonic(kind), " infers its result type");
  const std::string name = name_.empty() ? std::string(mnemonic(kind)) : name_;
  return finish(func_.insert(where_, kind, std::move(operands), std::move(attrs), {std::move(type)},
                             name))
      .front();
}

Value* Builder::constant(const Tensor& tensor) {
  return emit_typed(OpKind::Constant, {}, {{"data", module_.add_constant(tensor)}},
                    {tensor.dtype(), tensor.shape()});
}

Value* Builder::fill(double value, DType dtype, Shape shape) {
  return emit_typed(OpKind::Fill, {}, {{"value", value}}, {dtype, std::move(shape)});
}

Value* Builder::iota(std::int64_t dim, DType dtype, Shape shape) {
  return emit_typed(OpKind::Iota, {}, {{"dim", dim}}, {dtype, std::move(shape)});
}

Value* Builder::cast(Value* value, DType dtype) {
  if (value->type.dtype == dtype) return value;
  return emit_typed(OpKind::Cast, {value}, {}, {dtype, value->type.shape});
}

Value* Builder::reshape(Value* value, Shape shape) {
  if (value->type.shape == shape) return value;
  if (!sizes_are_sane(shape) || elements(shape) != elements(value->type.shape)) {
    throw CompileError(origin_.empty() ? "" : str("node '", origin_, "'"),
                       str("reshape: (", join(value->type.shape, ","),
                           ") has another count of elements than (", join(shape, ","), ")"));
  }
  if (is_fill(value))
    return fill(value->def->attrs.number("value"), value->type.dtype, std::move(shape));
  return emit_typed(OpKind::Reshape, {value}, {}, {value->type.dtype, std::move(shape)});
}

Value* Builder::transpose(Value* value, Ints perm) {
  bool identity = perm.size() == value->type.rank();
  for (std::size_t i = 0; identity && i < perm.size(); ++i) {
    identity = perm[i] == static_cast<std::int64_t>(i);
  }
  if (identity) return value;
  return emit(OpKind::Transpose, {value}, {{"perm", std::move(perm)}});
}

Value* Builder::broadcast(Value* value, Ints dims, Shape shape) {
  if (value->type.shape == shape) return value;
  if (is_fill(value))
    return fill(value->def->attrs.number("value"), value->type.dtype, std::move(shape));
  return emit_typed(OpKind::Broadcast, {value}, {{"dims", std::move(dims)}},
                    {value->type.dtype, std::move(shape)});
}

Value* Builder::broadcast_to(Value* value, const Shape& shape) {
  if (value->type.shape == shape) return value;
  const std::size_t missing = shape.size() - value->type.rank();
  Shape kept;
  Ints dims;
  for (std::size_t d = 0; d < value->type.rank(); ++d) {
    if (value->type.shape[d] == 1 && shape[d + missing] != 1) continue;
    kept.push_back(value->type.shape[d]);
    dims.push_back(static_cast<std::int64_t>(d + missing));
  }
  return broadcast(reshape(value, kept), dims, shape);
}

Value* Builder::broadcast_rows(Value* value, const Value* like) {
  Ints dims(value->type.rank());
  std::iota(dims.begin(), dims.end(),
            static_cast<std::int64_t>(like->type.rank() - value->type.rank()));
  return broadcast(value, dims, like->type.shape);
}

Value* Builder::broadcast_columns(Value* value, const Value* like) {
  Ints dims(value->type.rank());
  std::iota(dims.begin(), dims.end(), 0);
  return broadcast(value, dims, like->type.shape);
}

Value* Builder::slice(Value* value, std::int64_t dim, std::int64_t start, std::int64_t stop,
                      std::int64_t step) {
  if (start == 0 && step == 1 && stop == value->type.shape[static_cast<std::size_t>(dim)])
    return value;
  return emit(OpKind::Slice, {value},
              {{"dim", dim}, {"start", start}, {"stop", stop}, {"step", step}});
}

Value* Builder::reduce_sum(Value* value, Ints dims) {
  if (dims.empty()) return value;
  return emit(OpKind::ReduceSum, {value}, {{"dims", std::move(dims)}});
}

Value* Builder::einsum(std::vector<Value*> operands, const std::string& spec) {
  return emit(OpKind::Einsum, std::move(operands), {{"spec", spec}});
}

const Tensor* constant_of(const Module& module, const Value* value) {
  if (value->def == nullptr || value->def->kind != OpKind::Constant) return nullptr;
  const auto found = module.constants.find(value->def->attrs.text("data"));
  return found == module.constants.end() ? nullptr : &found->second;
}

std::optional<double> splat_of(const Module& module, const Value* value) {
  while (value->def != nullptr) {
    const OpKind kind = value->def->kind;
    if (kind == OpKind::Fill) return value->def->attrs.number("value");
    if (kind == OpKind::Constant) break;
    if (kind != OpKind::Broadcast && kind != OpKind::Reshape && kind != OpKind::Transpose &&
        kind != OpKind::Slice) {
      return std::nullopt;
    }
    value = value->def->operand(0);
  }
  const Tensor* tensor = constant_of(module, value);
  if (tensor == nullptr || tensor->size() == 0) return std::nullopt;
  const std::size_t bytes = byte_size(tensor->dtype());
  for (std::int64_t i = 1; i < tensor->size(); ++i) {
    if (std::memcmp(tensor->data(), tensor->data() + static_cast<std::size_t>(i) * bytes, bytes) !=
        0) {
      return std::nullopt;
    }
  }
  return tensor->number(0);
}

}  // namespace tessera
