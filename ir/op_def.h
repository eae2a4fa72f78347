// One row per op kind: everything that is true of the op itself. Kernels (per device) and ONNX
// translators live apart, because they change for other reasons. Rows stand in ir/ops/<family>.cpp;
// a missing row is a link error by name.
#pragma once
#include <span>
#include <string_view>
#include <vector>

#include "ir/graph.h"

namespace tessera {

class Builder;

// How partial values pass. `Joint`: linear in all operands together (add, neg, movement): either
// none is partial or all are, over the same axes. `Multi`: linear in each operand alone (einsum,
// mul): at most one is partial. `First`: linear in operand 0 only. `Branches`: linear in
// operands 1.. jointly (select). `Opaque`: refuses partials.
enum class Linearity : std::uint8_t { Opaque, Joint, Multi, First, Branches };

enum class ResultDtype : std::uint8_t { SameAsFirst, SameAsLast, Bool, I64, Explicit };

struct OpDef {
  // "...J,J->...J": letters are loops, "..." any leading dimensions, upper case loops are whole, or
  // expandable when the row has an expansion. Empty: `map` derives it from operand ranks, result
  // types and attributes.
  std::string_view index_map = {};
  IndexMap (*map)(const Op& op) = nullptr;
  Linearity linear = Linearity::Opaque;
  ReduceOp reduce = ReduceOp::Sum;  // what a loop that is missing from a result is reduced by
  bool moves_only =
      false;  // moves elements without arithmetic: max, min and prod partials pass too
  ResultDtype dtype = ResultDtype::SameAsFirst;
  bool explicit_type = false;  // result types come from the builder's caller, not from operands
  // Logical result types when index maps cannot say (slice, concat ...). Throws CompileError with
  // `op` named.
  std::vector<Type> (*infer)(const Op& op) = nullptr;
  // Whether the attributes and operand types make sense together; empty = fine. Run by infer and by
  // the verifier.
  std::string (*check)(const Op& op) = nullptr;
  // Gradient of each operand (null: none) given the gradient of each result (null: zero). Null: not
  // differentiable.
  std::vector<Value*> (*grad)(Builder& builder, const Op& op,
                              std::span<Value* const> result_grads) = nullptr;
  // The same results by primitive ops, for when an expandable loop is cut.
  std::vector<Value*> (*expand)(Builder& builder, const Op& op) = nullptr;
};

#define OP(Kind, mnemonic, family, attrs) extern const OpDef k##Kind;
#include "ir/base/ops.def"
#undef OP

const OpDef& op_def(OpKind kind);

// The index map of this op: loops as letters, "..." spelled out. Throws CompileError when ranks do
// not fit.
IndexMap index_map(const Op& op);

// Size of each loop; throws CompileError when two dimensions on one loop differ.
std::map<char, std::int64_t> loop_sizes(const Op& op, const IndexMap& map);

// Logical result types from operand types and attributes. Not for ops with explicit_type.
std::vector<Type> infer_types(const Op& op);

}  // namespace tessera
