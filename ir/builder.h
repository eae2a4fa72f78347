// Builder: appends ops at an insertion point, inferring logical result types. Shardings are the
// business of passes.
#pragma once
#include <functional>
#include <initializer_list>

#include "ir/graph.h"

namespace tessera {

class Builder {
 public:
  Builder(Module& module, Func& func) : Builder(module, func, func.ops().end()) {}
  Builder(Module& module, Func& func, Func::OpList::iterator where)
      : module_(module), func_(func), where_(where) {}
  // Inserts before `op`, and gives new ops its origin.
  Builder(Module& module, Op& before) : Builder(module, *before.func, before.place) {
    origin_ = before.origin;
  }

  Module& module() { return module_; }
  Func& func() { return func_; }
  void set_origin(std::string origin) { origin_ = std::move(origin); }
  void set_name(std::string name) {
    name_ = std::move(name);
  }  // base of result names; empty = mnemonics
  void set_insertion_point(Func::OpList::iterator where) { where_ = where; }

  // May evaluate an op whose operands are all constants: returns its results, or nothing to keep
  // the op. Set by the frontend, which folds while it builds.
  using Folder = std::function<std::vector<Tensor>(const Op& op)>;
  void set_folder(Folder folder) { folder_ = std::move(folder); }

  std::vector<Value*> emit_all(OpKind kind, std::vector<Value*> operands, AttrList attrs = {});
  Value* emit(OpKind kind, std::vector<Value*> operands, AttrList attrs = {});
  // For ops whose rows say explicit_type.
  Value* emit_typed(OpKind kind, std::vector<Value*> operands, AttrList attrs, Type type);

  Value* constant(const Tensor& tensor);
  Value* fill(double value, DType dtype, Shape shape);
  Value* fill_like(double value, const Value* like) {
    return fill(value, like->type.dtype, like->type.shape);
  }
  Value* iota(std::int64_t dim, DType dtype, Shape shape);
  Value* cast(Value* value, DType dtype);     // the value itself when it has the dtype
  Value* reshape(Value* value, Shape shape);  // the value itself when it has the shape
  Value* transpose(Value* value, Ints perm);  // the value itself for the identity
  Value* broadcast(Value* value, Ints dims, Shape shape);
  // Numpy broadcasting to `shape`: aligned at the last dimensions, sizes of 1 are stretched.
  Value* broadcast_to(Value* value, const Shape& shape);
  // Repeats a value along new leading (`dims` = the last ones) dimensions so that it has the shape
  // of `like`.
  Value* broadcast_rows(Value* value, const Value* like);     // [J] -> [..., J]
  Value* broadcast_columns(Value* value, const Value* like);  // [...] -> [..., J]
  Value* slice(Value* value, std::int64_t dim, std::int64_t start, std::int64_t stop,
               std::int64_t step = 1);
  Value* reduce_sum(Value* value, Ints dims);  // the value itself when dims is empty
  Value* einsum(std::vector<Value*> operands, const std::string& spec);
  Value* add(Value* a, Value* b) { return emit(OpKind::Add, {a, b}); }
  Value* sub(Value* a, Value* b) { return emit(OpKind::Sub, {a, b}); }
  Value* mul(Value* a, Value* b) { return emit(OpKind::Mul, {a, b}); }
  Value* div(Value* a, Value* b) { return emit(OpKind::Div, {a, b}); }
  Value* neg(Value* a) { return emit(OpKind::Neg, {a}); }
  Value* scale(Value* a, double factor) { return mul(a, fill_like(factor, a)); }

 private:
  std::vector<Value*> finish(Op* op);

  Module& module_;
  Func& func_;
  Func::OpList::iterator where_;
  std::string origin_;
  std::string name_;
  Folder folder_;
};

// The tensor of a `constant` op's value, or null.
const Tensor* constant_of(const Module& module, const Value* value);
// The value of a `fill` op, also seen through broadcast, reshape, transpose and slice; nothing
// otherwise. A constant of equal elements counts too.
std::optional<double> splat_of(const Module& module, const Value* value);

}  // namespace tessera
