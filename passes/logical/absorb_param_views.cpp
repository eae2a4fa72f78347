// Movement next to parameters and contractions disappears:
//
//   %t = transpose %w perm (1,0)                        %y = einsum %x, %w "abc,dc->abd"
//   %y = einsum %x, %t "abc,cd->abd"              =>
//
//   %r = transpose %w perm (1,0)  (its only use)  =>    %w itself, its file view permuted
//   slices of %w, its only uses                   =>    one parameter for each slice
//   slice(einsum(%x, %w) + bias), unequal pieces  =>    einsum(%x, slice(%w)) + slice(bias)
//
// A tied parameter (looked up, and contracted transposed) stays one argument, since the transpose
// is in the einsum.
#include <algorithm>

#include "ir/base/text.h"
#include "ir/builder.h"
#include "ir/op_def.h"
#include "passes/pass.h"

namespace tessera {
namespace {

bool is_param(const Func& func, const Value* value) {
  return value->def == nullptr && func.arg_of(value).kind == ArgKind::Param;
}

// einsum(transpose(x)) reads x with permuted letters.
bool fold_operand_transposes(Op& einsum) {
  bool changed = false;
  for (std::size_t i = 0; i < einsum.operands.size(); ++i) {
    const Op* transpose = einsum.operand(i)->def;
    if (transpose == nullptr || transpose->kind != OpKind::Transpose) continue;
    IndexMap map = index_map(einsum);
    const Ints& perm = transpose->attrs.ints("perm");
    std::string term(perm.size(), ' ');
    for (std::size_t d = 0; d < perm.size(); ++d)
      term[static_cast<std::size_t>(perm[d])] = map.operands[i][d];
    map.operands[i] = term;
    einsum.attrs.set("spec", map.text());
    einsum.func->set_operand(&einsum, i, transpose->operand(0));
    changed = true;
  }
  return changed;
}

// transpose(einsum) writes in the transposed order, when nobody else reads the einsum.
bool fold_result_transpose(Module& module, Op& transpose) {
  Op* einsum = transpose.operand(0)->def;
  Func& func = *transpose.func;
  if (transpose.kind != OpKind::Transpose || einsum == nullptr || einsum->kind != OpKind::Einsum)
    return false;
  if (einsum->result()->users.size() != 1 || func.is_result(einsum->result())) return false;
  IndexMap map = index_map(*einsum);
  std::string term;
  for (std::int64_t dim : transpose.attrs.ints("perm"))
    term += map.results[0][static_cast<std::size_t>(dim)];
  map.results[0] = term;
  Builder b(module, transpose);
  b.set_name(transpose.result()->name);
  b.set_origin(einsum->origin);
  func.replace_all_uses(transpose.result(), b.einsum(einsum->operands, map.text()));
  func.erase(&transpose);
  func.erase(einsum);
  return true;
}

ViewStep view_step(const Op& op) {
  switch (op.kind) {
    case OpKind::Transpose:
      return {ViewKind::Permute, op.attrs.ints("perm")};
    case OpKind::Slice:
      return {ViewKind::Slice,
              {op.attrs.integer("dim"), op.attrs.integer("start"), op.attrs.integer("stop")}};
    default:
      return {ViewKind::Reshape, op.result()->type.shape};
  }
}

bool is_view(const Op& op) {
  return op.kind == OpKind::Transpose || op.kind == OpKind::Reshape ||
         (op.kind == OpKind::Slice && op.attrs.integer("step") == 1);
}

// A parameter that is only read through one view becomes that view.
bool absorb_only_view(Module& module, Func& func, Value* param) {
  if (param->users.size() != 1 || func.is_result(param) || !is_view(*param->users[0])) return false;
  Op* view = param->users[0];
  module.weights.at(param->name).view.push_back(view_step(*view));
  const Type type = view->result()->type;
  func.replace_all_uses(view->result(), param);
  func.erase(view);
  param->type = type;
  return true;
}

// A parameter that is only read in slices becomes several.
bool split_into_slices(Module& module, Func& func, Value* param) {
  const std::vector<Op*> slices = param->users;
  const bool all_slices = slices.size() > 1 && !func.is_result(param) &&
                          std::ranges::all_of(slices, [](const Op* user) {
                            return user->kind == OpKind::Slice && user->attrs.integer("step") == 1;
                          });
  if (!all_slices) return false;
  const WeightSource source = module.weights.at(param->name);
  std::map<std::string, Value*> pieces;
  for (Op* slice : slices) {
    const ViewStep step = view_step(*slice);
    Value*& piece = pieces[join(step.args, ",")];
    if (piece == nullptr) {
      piece = func.add_arg(str(param->name, ".", pieces.size() - 1), slice->result()->type,
                           ArgKind::Param);
      WeightSource own = source;
      own.view.push_back(step);
      module.weights[piece->name] = own;
    }
    func.replace_all_uses(slice->result(), piece);
    func.erase(slice);
  }
  module.weights.erase(param->name);
  func.erase_arg(param);
  return true;
}

// Whether a slice of `value` along `dim` can be taken of parameters instead.
bool comes_from_params(const Func& func, const Value* value, std::size_t dim) {
  if (value->def == nullptr) return is_param(func, value);
  const Op& op = *value->def;
  if (op.kind == OpKind::Fill) return true;
  if (op.kind == OpKind::Broadcast) {
    const Ints& dims = op.attrs.ints("dims");
    const auto at = std::ranges::find(dims, static_cast<std::int64_t>(dim));
    return at == dims.end() ||
           comes_from_params(func, op.operand(0), static_cast<std::size_t>(at - dims.begin()));
  }
  if (op.kind == OpKind::Add) {
    return comes_from_params(func, op.operand(0), dim) &&
           comes_from_params(func, op.operand(1), dim);
  }
  if (op.kind != OpKind::Einsum) return false;
  const IndexMap map = index_map(op);
  const char loop = map.results[0][dim];
  int holders = 0;
  bool fine = true;
  for (std::size_t i = 0; i < map.operands.size(); ++i) {
    const std::size_t at = map.operands[i].find(loop);
    if (at == std::string::npos) continue;
    ++holders;
    fine = fine && is_param(func, op.operand(i));
  }
  return fine && holders == 1;
}

Value* sliced(Builder& b, Value* value, const ViewStep& step) {
  const std::int64_t dim = step.args[0];
  const auto take = [&](Value* v, std::int64_t d) {
    return b.slice(v, d, step.args[1], step.args[2]);
  };
  if (value->def == nullptr) return take(value, dim);
  const Op& op = *value->def;
  Shape shape = value->type.shape;
  shape[static_cast<std::size_t>(dim)] = step.args[2] - step.args[1];
  if (op.kind == OpKind::Fill) return b.fill(op.attrs.number("value"), value->type.dtype, shape);
  if (op.kind == OpKind::Broadcast) {
    const Ints& dims = op.attrs.ints("dims");
    const auto at = std::ranges::find(dims, dim);
    Value* inner = op.operand(0);
    if (at != dims.end())
      inner = sliced(b, inner, {ViewKind::Slice, {at - dims.begin(), step.args[1], step.args[2]}});
    return b.broadcast(inner, dims, shape);
  }
  if (op.kind == OpKind::Add)
    return b.add(sliced(b, op.operand(0), step), sliced(b, op.operand(1), step));
  const IndexMap map = index_map(op);
  const char loop = map.results[0][static_cast<std::size_t>(dim)];
  std::vector<Value*> operands = op.operands;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const std::size_t at = map.operands[i].find(loop);
    if (at != std::string::npos) operands[i] = take(operands[i], static_cast<std::int64_t>(at));
  }
  return b.einsum(operands, map.text());
}

// Unequal pieces of a fused projection (grouped queries, keys, values): no cut of the whole would
// respect them.
bool hoist_unequal_slices(Module& module, Func& func, Value* value) {
  if (value->users.size() < 2 || func.is_result(value) || value->def == nullptr) return false;
  const Op& first = *value->users[0];
  if (first.kind != OpKind::Slice) return false;
  const std::int64_t dim = first.attrs.integer("dim");
  bool unequal = false;
  for (const Op* user : value->users) {
    if (user->kind != OpKind::Slice || user->attrs.integer("dim") != dim ||
        user->attrs.integer("step") != 1)
      return false;
    unequal = unequal || user->result()->type.shape != first.result()->type.shape;
  }
  if (!unequal || !comes_from_params(func, value, static_cast<std::size_t>(dim))) return false;
  const std::vector<Op*> slices = value->users;
  for (Op* slice : slices) {
    Builder b(module, *slice);
    b.set_name(slice->result()->name);
    func.replace_all_uses(slice->result(), sliced(b, value, view_step(*slice)));
    func.erase(slice);
  }
  return true;
}

bool sweep(Module& module, Func& func) {
  bool changed = false;
  for (auto it = func.ops().begin(); it != func.ops().end();) {
    Op& op = **it++;
    if (op.kind == OpKind::Einsum) changed |= fold_operand_transposes(op);
    if (op.kind == OpKind::Transpose) changed |= fold_result_transpose(module, op);
  }
  std::vector<Value*> values;
  for (const auto& op : func.ops()) values.push_back(op->result());
  for (Value* value : values) {
    if (hoist_unequal_slices(module, func, value))
      return true;  // `values` holds slices that are gone now
  }
  func.erase_unused_ops();
  std::vector<Value*> params;
  for (const Arg& arg : func.args()) {
    if (arg.kind == ArgKind::Param) params.push_back(arg.value.get());
  }
  for (Value* param : params) {
    changed |= absorb_only_view(module, func, param) || split_into_slices(module, func, param);
  }
  return changed;
}

}  // namespace

bool absorb_param_views(Module& module, PassContext&) {
  bool changed = false;
  for (const auto& func : module.funcs()) {
    while (sweep(module, *func)) changed = true;
  }
  return changed;
}

}  // namespace tessera
