// Elementwise ops and sources: every loop is free. Operands have one shape; broadcasting is an op
// of its own.
#include "ir/base/text.h"
#include "ir/op_def.h"
#include "ir/ops/grads.h"

namespace tessera {
namespace {

constexpr std::string_view kUnary = "...->...";
constexpr std::string_view kBinary = "...,...->...";

std::string same_dtypes(const Op& op) {
  for (const Value* operand : op.operands) {
    if (operand->type.dtype != op.operands[0]->type.dtype) {
      return str("operands have dtypes ", name(op.operands[0]->type.dtype), " and ",
                 name(operand->type.dtype));
    }
  }
  return {};
}

std::string float_operand(const Op& op) {
  if (is_float(op.operands[0]->type.dtype)) return same_dtypes(op);
  return str("needs floats, has ", name(op.operands[0]->type.dtype));
}

std::string bool_operands(const Op& op) {
  if (op.operands[0]->type.dtype == DType::Bool) return same_dtypes(op);
  return str("needs bool, has ", name(op.operands[0]->type.dtype));
}

std::string select_operands(const Op& op) {
  if (op.operands[0]->type.dtype != DType::Bool) return "the condition is not bool";
  if (op.operands[1]->type.dtype != op.operands[2]->type.dtype)
    return "the branches have different dtypes";
  return {};
}

IndexMap map_random(const Op& op) {
  IndexMap map;
  map.operands.resize(op.operands.size());
  map.results.push_back(fresh_loops(op.results[0]->type.rank(), ""));
  return map;
}

}  // namespace

constinit const OpDef kConstant{.index_map = "->...", .explicit_type = true};
constinit const OpDef kFill{.index_map = "->...", .explicit_type = true};
constinit const OpDef kIota{.index_map = "->...", .explicit_type = true};
constinit const OpDef kRandom{.map = map_random, .explicit_type = true};

constinit const OpDef kNeg{
    .index_map = kUnary, .linear = Linearity::Joint, .check = same_dtypes, .grad = grad_neg};
constinit const OpDef kAbs{.index_map = kUnary, .grad = grad_abs};
constinit const OpDef kSign{.index_map = kUnary, .grad = grad_zero};
constinit const OpDef kFloor{.index_map = kUnary, .grad = grad_zero};
constinit const OpDef kCeil{.index_map = kUnary, .grad = grad_zero};
constinit const OpDef kRound{.index_map = kUnary, .grad = grad_zero};
constinit const OpDef kExp{.index_map = kUnary, .check = float_operand, .grad = grad_exp};
constinit const OpDef kLog{.index_map = kUnary, .check = float_operand, .grad = grad_log};
constinit const OpDef kSqrt{.index_map = kUnary, .check = float_operand, .grad = grad_sqrt};
constinit const OpDef kRsqrt{.index_map = kUnary, .check = float_operand, .grad = grad_rsqrt};
constinit const OpDef kReciprocal{
    .index_map = kUnary, .check = float_operand, .grad = grad_reciprocal};
constinit const OpDef kSin{.index_map = kUnary, .check = float_operand, .grad = grad_sin};
constinit const OpDef kCos{.index_map = kUnary, .check = float_operand, .grad = grad_cos};
constinit const OpDef kTanh{.index_map = kUnary, .check = float_operand, .grad = grad_tanh};
constinit const OpDef kErf{.index_map = kUnary, .check = float_operand, .grad = grad_erf};
constinit const OpDef kSigmoid{.index_map = kUnary, .check = float_operand, .grad = grad_sigmoid};
constinit const OpDef kRelu{.index_map = kUnary, .grad = grad_relu};
constinit const OpDef kGelu{.index_map = kUnary, .check = float_operand, .grad = grad_gelu};
constinit const OpDef kGeluTanh{
    .index_map = kUnary, .check = float_operand, .grad = grad_gelu_tanh};
constinit const OpDef kSilu{.index_map = kUnary, .check = float_operand, .grad = grad_silu};
constinit const OpDef kReluGrad{.index_map = kBinary, .check = float_operand};
constinit const OpDef kGeluGrad{.index_map = kBinary, .check = float_operand};
constinit const OpDef kGeluTanhGrad{.index_map = kBinary, .check = float_operand};
constinit const OpDef kSiluGrad{.index_map = kBinary, .check = float_operand};
constinit const OpDef kIsNan{
    .index_map = kUnary, .dtype = ResultDtype::Bool, .check = float_operand};
constinit const OpDef kNot{.index_map = kUnary, .check = bool_operands};
constinit const OpDef kAdd{
    .index_map = kBinary, .linear = Linearity::Joint, .check = same_dtypes, .grad = grad_add};
constinit const OpDef kSub{
    .index_map = kBinary, .linear = Linearity::Joint, .check = same_dtypes, .grad = grad_sub};
constinit const OpDef kMul{
    .index_map = kBinary, .linear = Linearity::Multi, .check = same_dtypes, .grad = grad_mul};
constinit const OpDef kDiv{
    .index_map = kBinary, .linear = Linearity::First, .check = same_dtypes, .grad = grad_div};
constinit const OpDef kPow{.index_map = kBinary, .check = same_dtypes, .grad = grad_pow};
constinit const OpDef kMod{.index_map = kBinary, .check = same_dtypes};
constinit const OpDef kMax{.index_map = kBinary, .check = same_dtypes, .grad = grad_max};
constinit const OpDef kMin{.index_map = kBinary, .check = same_dtypes, .grad = grad_min};
constinit const OpDef kAnd{.index_map = kBinary, .check = bool_operands};
constinit const OpDef kOr{.index_map = kBinary, .check = bool_operands};
constinit const OpDef kXor{.index_map = kBinary, .check = bool_operands};
constinit const OpDef kEqual{
    .index_map = kBinary, .dtype = ResultDtype::Bool, .check = same_dtypes};
constinit const OpDef kNotEqual{
    .index_map = kBinary, .dtype = ResultDtype::Bool, .check = same_dtypes};
constinit const OpDef kLess{.index_map = kBinary, .dtype = ResultDtype::Bool, .check = same_dtypes};
constinit const OpDef kLessEqual{
    .index_map = kBinary, .dtype = ResultDtype::Bool, .check = same_dtypes};
constinit const OpDef kGreater{
    .index_map = kBinary, .dtype = ResultDtype::Bool, .check = same_dtypes};
constinit const OpDef kGreaterEqual{
    .index_map = kBinary, .dtype = ResultDtype::Bool, .check = same_dtypes};
constinit const OpDef kSelect{.index_map = "...,...,...->...",
                              .linear = Linearity::Branches,
                              .dtype = ResultDtype::SameAsLast,
                              .check = select_operands,
                              .grad = grad_select};
// Integers divide and truncate, so only casts between floats are linear; see partial_passes in
// verify.
constinit const OpDef kCast{
    .index_map = kUnary, .linear = Linearity::Joint, .explicit_type = true, .grad = grad_cast};

}  // namespace tessera
