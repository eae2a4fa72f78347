// Cuts a micro-batch in parts that do not wait for each other, so that one part computes while the
// other's activations are reduced (`--sub-batches N`): what hides the blocking collectives of the
// forward and the backward pass.
//
//   func @micro(%ids: i64[8, 16] input)       =>   func @micro(%ids: i64[2, 4, 16] input)
//     %y = einsum %h, %w "bsk,kn->bsn"               %y.0 = einsum %h.0, %w "bsk,kn->bsn"
//                                                    %y.1 = einsum %h.1, %w "bsk,kn->bsn"
//     %dw = einsum %h, %dy "bsk,bsn->kn"             %dw.0 = einsum %h.0, %dy.0 "bsk,bsn->kn"
//                                                    %dw.1 = einsum %h.1, %dy.1 "bsk,bsn->kn"
//                                                    %dw = add %dw.0, %dw.1
//
// Inputs get a leading dimension that counts parts, and that no axis cuts, so that a part is cut
// over devices as the whole was. Every op over the batch is done part by part; what is reduced over
// the batch is reduced over the parts too; the rest is done once.
#include <algorithm>
#include <unordered_map>

#include "ir/base/diag.h"
#include "ir/base/text.h"
#include "ir/builder.h"
#include "ir/op_def.h"
#include "passes/pass.h"
#include "passes/sharded/layout.h"

namespace tessera {
namespace {

class Splitter {
 public:
  Splitter(Module& module, Func& func, std::int64_t parts)
      : module_(module),
        func_(func),
        parts_(parts),
        classes_(module),
        batch_(find_batch(module, classes_)) {
    for (const Arg& arg : func.args()) find_batch_dims(arg.value.get());
    for (const auto& op : func.ops()) {
      for (const auto& result : op->results) find_batch_dims(result.get());
    }
  }

  // Why it cannot be done; empty if it can.
  std::string obstacle() const {
    if (batch_.size < 0) return "the model has no batch dimension";
    if (batch_.size % parts_ != 0) return str("a micro-batch has ", batch_.size, " samples");
    for (const Arg& arg : func_.args()) {
      if (arg.kind != ArgKind::Input && has_batch(arg.value.get()))
        return str("%", arg.value->name, " has the batch as a dimension");
      if (has_batch(arg.value.get()) && dims_.at(arg.value.get()) != std::vector<std::size_t>{0})
        return str("the batch is not the leading dimension of %", arg.value->name);
    }
    for (const FuncResult& result : func_.results) {
      if (has_batch(result.value)) return str("%", result.value->name, " is a result");
    }
    for (const auto& op : func_.ops()) {
      if (pairs_samples(*op))
        return str(mnemonic(op->kind), " %", op->result()->name, " pairs samples");
      if (looks_up_batch(*op))
        return str(mnemonic(op->kind), " %", op->result()->name, " looks samples up");
    }
    return "";
  }

  void run() {
    std::vector<Op*> ops;
    for (const auto& op : func_.ops()) ops.push_back(op.get());
    for (const Arg& arg : func_.args()) {
      if (arg.kind == ArgKind::Input && has_batch(arg.value.get())) split_input(arg.value.get());
    }
    for (Op* op : ops) split(*op);
    for (std::size_t i = replaced_.size(); i-- > 0;) func_.erase(replaced_[i]);
  }

 private:
  void find_batch_dims(const Value* value) {
    for (std::size_t d = 0; d < value->type.rank(); ++d) {
      if (batch_.classes.contains(classes_.of(value, d))) dims_[value].push_back(d);
    }
  }
  bool has_batch(const Value* value) const { return dims_.contains(value); }
  bool is_batch(const Value* value, std::size_t dim) const {
    return has_batch(value) && std::ranges::find(dims_.at(value), dim) != dims_.at(value).end();
  }

  // Two of its loops are the batch.
  bool pairs_samples(const Op& op) const {
    const IndexMap map = index_map(op);
    return std::ranges::count_if(map.loops(), [&](char loop) {
             return batch_.classes.contains(classes_.of_loop(op, map, loop));
           }) > 1;
  }

  // Its result depends on where in the batch a sample is.
  bool looks_up_batch(const Op& op) const {
    const auto dim = [&] { return static_cast<std::size_t>(op.attrs.integer("dim")); };
    if (op.kind == OpKind::Gather) return is_batch(op.operand(0), dim());
    return op.kind == OpKind::ScatterAdd && is_batch(op.result(), dim());
  }
  bool counts_batch(const Op& op) const {
    if (op.kind == OpKind::Constant) return true;
    return op.kind == OpKind::Iota &&
           is_batch(op.result(), static_cast<std::size_t>(op.attrs.integer("dim")));
  }

  Type part_type(const Value* value) const {
    Type type = value->type;
    if (!has_batch(value)) return type;
    for (const std::size_t dim : dims_.at(value)) type.shape[dim] /= parts_;
    return type;
  }

  void split_input(Value* input) {
    const Shape part = part_type(input).shape;
    Shape split = part;
    split.insert(split.begin(), parts_);
    input->type = Type(input->type.dtype, split);
    module_.notes[str(kSubBatchesNote, input->name)] = str(parts_);
    Builder b(module_, func_, func_.ops().begin());
    for (std::int64_t i = 0; i < parts_; ++i) {
      b.set_name(str(input->name, ".cut.", i));
      Value* piece = b.slice(input, 0, i, i + 1);
      piece->def->attrs.set(kSubBatch, i);
      b.set_name(str(input->name, ".", i));
      parts_of_[input].push_back(b.reshape(piece, part));
    }
  }

  void split(Op& op) {
    const auto has = [&](const auto& value) { return has_batch(std::to_address(value)); };
    const bool reads = std::ranges::any_of(op.operands, has);
    const bool makes = std::ranges::any_of(op.results, has);
    if (!reads && !makes) return;
    if (!reads && counts_batch(op)) {
      split_source(op);
      return;
    }
    std::vector<Op*> made;
    for (std::int64_t i = 0; i < (reads ? parts_ : 1); ++i) made.push_back(part_of(op, i));
    for (const auto& result : op.results) {
      std::vector<Value*> parts;
      for (const Op* part : made) parts.push_back(part->result(at(result->index)));
      if (!has_batch(result.get())) {
        func_.replace_all_uses(result.get(), sum(op, *result, parts));
        continue;
      }
      parts.resize(at(parts_), parts.front());  // of what is the same for all
      parts_of_[result.get()] = std::move(parts);
    }
    replaced_.push_back(&op);
  }

  // Constants, and positions in the batch.
  void split_source(Op& op) {
    const Value* whole = op.result();
    const std::size_t dim = dims_.at(whole).front();
    const Type type = part_type(whole);
    Builder b(module_, func_, op.place);
    b.set_origin(op.origin);
    for (std::int64_t i = 0; i < parts_; ++i) {
      b.set_name(str(whole->name, ".", i));
      const std::int64_t first = i * type.shape[dim];
      Value* part = nullptr;
      if (op.kind == OpKind::Constant) {
        part = b.constant(rows_of(*constant_of(module_, whole), dim, first, type.shape));
      } else {
        part = b.iota(static_cast<std::int64_t>(dim), type.dtype, type.shape);
        if (i > 0) part = b.add(part, b.fill_like(static_cast<double>(first), part));
      }
      parts_of_[whole].push_back(part);
    }
    replaced_.push_back(&op);
  }

  static Tensor rows_of(const Tensor& whole, std::size_t dim, std::int64_t first, Shape shape) {
    Tensor part(whole.dtype(), std::move(shape));
    const auto middle = part.shape().begin() + static_cast<std::ptrdiff_t>(dim);
    const auto outer = at(elements(Shape(part.shape().begin(), middle)));
    const std::size_t row = at(elements(Shape(middle + 1, part.shape().end()))) *
                            static_cast<std::size_t>(byte_size(whole.dtype()));
    const std::size_t rows = at(*middle), all = at(whole.shape()[dim]);
    for (std::size_t o = 0; o < outer; ++o)
      std::memcpy(part.mutable_data() + o * rows * row, whole.data() + (o * all + at(first)) * row,
                  rows * row);
    return part;
  }

  Op* part_of(const Op& op, std::int64_t part) {
    std::vector<Value*> operands;
    for (Value* operand : op.operands) {
      const auto found = parts_of_.find(operand);
      operands.push_back(found == parts_of_.end() ? operand : found->second[at(part)]);
    }
    std::vector<Type> types;
    for (const auto& result : op.results) types.push_back(part_type(result.get()));
    Op* made = func_.insert(op.place, op.kind, std::move(operands), op.attrs, std::move(types),
                            str(op.result()->name, ".", part));
    made->origin = op.origin;
    return made;
  }

  // A value that is reduced over the batch.
  Value* sum(const Op& op, const Value& whole, const std::vector<Value*>& parts) {
    static constexpr OpKind kKinds[] = {OpKind::Add, OpKind::Max, OpKind::Min, OpKind::Mul};
    const OpKind kind = kKinds[static_cast<std::size_t>(op_def(op.kind).reduce)];
    Value* total = parts.front();
    for (std::size_t i = 1; i < parts.size(); ++i) {
      Op* made = func_.insert(op.place, kind, {total, parts[i]}, {}, {whole.type}, whole.name);
      made->origin = op.origin;
      if (op.attrs.flag(kRecomputed)) made->attrs.set(kRecomputed, true);
      total = made->result();
    }
    return total;
  }

  static std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

  Module& module_;
  Func& func_;
  const std::int64_t parts_;
  const DimClasses classes_;
  const Batch batch_;
  std::unordered_map<const Value*, std::vector<std::size_t>> dims_;  // those that are the batch
  std::unordered_map<const Value*, std::vector<Value*>> parts_of_;   // of values over the batch
  std::vector<Op*> replaced_;
};

}  // namespace

bool split_micro_batch(Module& module, PassContext& context) {
  const std::int64_t parts = context.options.sub_batches;
  Func* micro = module.find("micro");
  if (parts == 1 || micro == nullptr) return false;
  Splitter splitter(module, *micro, parts);
  if (const std::string why = splitter.obstacle(); !why.empty())
    throw CompileError("--sub-batches", str("cannot be ", parts, ": ", why));
  splitter.run();
  return true;
}

}  // namespace tessera
