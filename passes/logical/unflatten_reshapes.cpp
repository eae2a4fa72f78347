// Every logical dimension becomes a dimension: batch, sequence, qkv, head, head_dim.
//
//   %f = reshape %x : f32[128, 32]                             %y = einsum %x, %w "abc,cdef->abdef"
//   : f32[8, 16, 3, 4, 8] %y = einsum %f, %w "ab,bc->ac" : f32[128, 96]         =>   %q = slice %y
//   dim 2 start 0 stop 1 : f32[8, 16, 1, 4, 8] %z = reshape %y : f32[8, 16, 96] (%w : f32[32, 3, 4,
//   8], a view of the file's [32, 96]) %q = slice %z dim 2 start 0 stop 32 : f32[8, 16, 32] %h =
//   reshape %q : f32[8, 16, 4, 8]
//
// The factorisation is global (passes/logical/dim_factors.h), so no op order or pattern matters.
// Dimensions that an op needs whole, and the borders of the function, keep their sizes; a reshape
// that would split one stays.
#include <numeric>
#include <set>

#include "ir/base/text.h"
#include "ir/builder.h"
#include "ir/op_def.h"
#include "passes/logical/dim_factors.h"
#include "passes/pass.h"

namespace tessera {
namespace {

class Refiner {
 public:
  Refiner(Module& module, Func& func)
      : module_(module), func_(func), factors_(func), b_(module, func) {}

  bool run() {
    if (!factors_.refines_anything()) return false;
    std::vector<Op*> old_ops;
    for (const auto& op : func_.ops()) old_ops.push_back(op.get());
    std::map<Value*, Shape>
        param_shapes;  // types change last: factors are asked for by the old ones
    for (Arg& arg : func_.args()) {
      refined_[arg.value.get()] = arg.value.get();
      if (arg.kind == ArgKind::Param)
        param_shapes[arg.value.get()] = factors_.refined_shape(arg.value.get());
    }
    for (const auto& [param, shape] : param_shapes) stand_in(param, shape);
    for (Op* op : old_ops) refine(*op);
    for (FuncResult& result : func_.results) result.value = refined_.at(result.value);
    std::vector<std::pair<Value*, std::string>> names;  // the new values take over the names
    for (const Op* op : old_ops) {
      for (const auto& result : op->results)
        names.emplace_back(refined_.at(result.get()), result->name);
    }
    for (std::size_t i = old_ops.size(); i-- > 0;) func_.erase(old_ops[i]);
    std::set<const Value*> named;
    for (const auto& [value, name] : names) {
      if (value->def != nullptr && named.insert(value).second) func_.rename(value, name);
    }
    for (const auto& [param, shape] : param_shapes) adopt(param, shape);
    return true;
  }

 private:
  // While refining, a changed parameter is stood in for by a reshape of it.
  void stand_in(Value* param, const Shape& shape) {
    if (param->type.shape == shape) return;
    Builder first(module_, func_, func_.ops().begin());
    first.set_name(param->name + ".view");
    refined_[param] = first.reshape(param, shape);
  }

  void adopt(Value* param, const Shape& shape) {
    Value* view = refined_.at(param);
    if (view == param) return;
    param->type = Type(param->type.dtype, shape);
    module_.weights.at(param->name).view.push_back({ViewKind::Reshape, shape});
    func_.replace_all_uses(view, param);
    func_.erase(view->def);
  }

  Value* operand(const Op& op, std::size_t i) const { return refined_.at(op.operand(i)); }

  std::vector<Value*> operands(const Op& op) const {
    std::vector<Value*> values;
    for (const Value* value : op.operands) values.push_back(refined_.at(const_cast<Value*>(value)));
    return values;
  }

  Shape shape_of(const Op& op) const { return factors_.refined_shape(op.result()); }

  // dims of `value`, each replaced by the refined ones it became.
  Ints spread(const Value* value, const Ints& dims) const {
    Ints result;
    for (std::int64_t dim : dims) {
      const std::int64_t first = factors_.refined_dim(value, static_cast<std::size_t>(dim));
      const auto count =
          static_cast<std::int64_t>(factors_.factors(value, static_cast<std::size_t>(dim)).size());
      for (std::int64_t i = 0; i < count; ++i) result.push_back(first + i);
    }
    return result;
  }

  AttrList moved_dim(const Op& op, const Value* value) const {
    AttrList attrs = op.attrs;
    attrs.set("dim",
              factors_.refined_dim(value, static_cast<std::size_t>(op.attrs.integer("dim"))));
    return attrs;
  }

  std::string refined_spec(const Op& op) const {
    const IndexMap map = index_map(op);
    std::map<char, std::string> letters;
    std::string used = map.loops();
    for (std::size_t i = 0; i < map.operands.size(); ++i) {
      for (std::size_t d = 0; d < map.operands[i].size(); ++d) {
        const std::size_t count = factors_.factors(op.operand(i), d).size();
        std::string& own = letters[map.operands[i][d]];
        if (!own.empty()) continue;
        own = map.operands[i][d] + fresh_loops(count - 1, used);
        used += own;
      }
    }
    IndexMap refined;
    const auto rewrite = [&](const std::string& term) {
      std::string result;
      for (char loop : term) result += letters.at(loop);
      return result;
    };
    for (const std::string& term : map.operands) refined.operands.push_back(rewrite(term));
    refined.results.push_back(rewrite(map.results[0]));
    return refined.text();
  }

  // Slices the outermost factor; a factor of one piece is dropped.
  Value* refined_slice(const Op& op) {
    const auto dim = static_cast<std::size_t>(op.attrs.integer("dim"));
    const Shape whole = factors_.factors(op.operand(0), dim);
    const Shape piece = factors_.factors(op.result(), dim);
    const std::int64_t stride = whole.size() == 1 ? 1 : op.operand(0)->type.shape[dim] / whole[0];
    const std::int64_t start = op.attrs.integer("start");
    const std::int64_t stop = op.attrs.integer("stop");
    const std::int64_t step = op.attrs.integer("step");
    const std::int64_t at = factors_.refined_dim(op.operand(0), dim);
    const bool same_inner = whole.size() >= piece.size() &&
                            std::equal(piece.begin() + 1, piece.end(),
                                       whole.end() - static_cast<std::ptrdiff_t>(piece.size()) + 1);
    if (start % stride != 0 || (stop > 0 && stop % stride != 0) || (step != 1 && stride != 1) ||
        !same_inner) {
      Value* flat = b_.reshape(operand(op, 0), op.operand(0)->type.shape);
      return b_.reshape(b_.emit(OpKind::Slice, {flat}, op.attrs), shape_of(op));
    }
    Value* sliced = b_.slice(operand(op, 0), at, start / stride, stop / stride, step);
    return b_.reshape(sliced, shape_of(op));
  }

  // Ops without a rule of their own see the old shapes.
  std::vector<Value*> unrefined(const Op& op) {
    std::vector<Value*> flat;
    for (std::size_t i = 0; i < op.operands.size(); ++i)
      flat.push_back(b_.reshape(operand(op, i), op.operand(i)->type.shape));
    std::vector<Value*> results;
    if (op_def(op.kind).explicit_type) {
      results = {b_.emit_typed(op.kind, flat, op.attrs, op.result()->type)};
    } else {
      results = b_.emit_all(op.kind, flat, op.attrs);
    }
    for (std::size_t i = 0; i < results.size(); ++i)
      results[i] = b_.reshape(results[i], factors_.refined_shape(op.result(i)));
    return results;
  }

  std::vector<Value*> refined_op(const Op& op) {
    const DType dtype = op.result()->type.dtype;
    switch (op.kind) {
      case OpKind::Constant:
        return {b_.constant(module_.constants.at(op.attrs.text("data")).reshaped(shape_of(op)))};
      case OpKind::Fill:
        return {b_.fill(op.attrs.number("value"), dtype, shape_of(op))};
      case OpKind::Iota:
        return {b_.iota(moved_dim(op, op.result()).integer("dim"), dtype, shape_of(op))};
      case OpKind::Reshape:
        return {b_.reshape(operand(op, 0), shape_of(op))};
      case OpKind::Cast:
        return {b_.emit_typed(OpKind::Cast, operands(op), {}, Type(dtype, shape_of(op)))};
      case OpKind::Transpose:
        return {b_.transpose(operand(op, 0), spread(op.operand(0), op.attrs.ints("perm")))};
      case OpKind::Broadcast:
        return {
            b_.broadcast(operand(op, 0), spread(op.result(), op.attrs.ints("dims")), shape_of(op))};
      case OpKind::Slice:
        return {refined_slice(op)};
      case OpKind::Einsum:
        return {b_.einsum(operands(op), refined_spec(op))};
      case OpKind::Concat:
      case OpKind::Pad:
      case OpKind::Gather:
      case OpKind::CumSum:
      case OpKind::ArgMax:
        return {b_.emit(op.kind, operands(op), moved_dim(op, op.operand(0)))};
      default:
        break;
    }
    if (op.attrs.has("dims")) {
      AttrList attrs = op.attrs;
      attrs.set("dims", spread(op.operand(0), op.attrs.ints("dims")));
      return b_.emit_all(op.kind, operands(op), attrs);
    }
    const bool follows =
        family(op.kind) == OpFamily::Elementwise || family(op.kind) == OpFamily::Normalization;
    return follows && op.kind != OpKind::Attention ? b_.emit_all(op.kind, operands(op), op.attrs)
                                                   : unrefined(op);
  }

  void refine(const Op& op) {
    b_.set_origin(op.origin);
    b_.set_name(op.result()->name);
    const std::vector<Value*> results = refined_op(op);
    for (std::size_t i = 0; i < results.size(); ++i) {
      TESSERA_CHECK(results[i]->type.shape == factors_.refined_shape(op.result(i)),
                    mnemonic(op.kind), " %", op.result(i)->name, " refined to another shape");
      refined_[op.result(i)] = results[i];
    }
  }

  Module& module_;
  Func& func_;
  const DimFactors factors_;
  Builder b_;
  std::map<Value*, Value*> refined_;
};

}  // namespace

bool unflatten_reshapes(Module& module, PassContext&) {
  bool changed = false;
  for (const auto& func : module.funcs()) changed |= Refiner(module, *func).run();
  return changed;
}

}  // namespace tessera
