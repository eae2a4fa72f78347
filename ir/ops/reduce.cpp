// Reductions. The reduced loops are free: cutting one leaves a partial result with the op's own
// operator.
#include <algorithm>

#include "ir/base/diag.h"
#include "ir/base/text.h"
#include "ir/op_def.h"
#include "ir/ops/grads.h"

namespace tessera {
namespace {

bool reduces(const Op& op, std::size_t dim) {
  return std::ranges::find(op.attrs.ints("dims"), static_cast<std::int64_t>(dim)) !=
         op.attrs.ints("dims").end();
}

IndexMap map_reduce(const Op& op) {
  IndexMap map;
  const std::string loops = fresh_loops(op.operands[0]->type.rank(), "");
  std::string kept;
  for (std::size_t d = 0; d < loops.size(); ++d) {
    if (!reduces(op, d)) kept += loops[d];
  }
  map.operands.push_back(loops);
  map.results.push_back(kept);
  return map;
}

std::string check_reduce(const Op& op) {
  const Ints& dims = op.attrs.ints("dims");
  for (std::size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] < 0 || dims[i] >= static_cast<std::int64_t>(op.operands[0]->type.rank())) {
      return str("dimension ", dims[i], " of a value of rank ", op.operands[0]->type.rank());
    }
    if (i > 0 && dims[i] <= dims[i - 1]) return "dims must be ascending";
  }
  if (op.operands[0]->type.dtype == DType::Bool) return "cannot reduce bool";
  return {};
}

bool dim_in_range(const Op& op) {
  const std::int64_t dim = op.attrs.integer("dim");
  return dim >= 0 && dim < static_cast<std::int64_t>(op.operands[0]->type.rank());
}

std::string check_dim(const Op& op) { return dim_in_range(op) ? "" : "dim is out of range"; }

// The scanned dimension is whole; `keep` says whether the result has it.
IndexMap scan_map(const Op& op, bool keep) {
  IndexMap map;
  std::string loops = fresh_loops(op.operands[0]->type.rank(), "");
  if (!dim_in_range(op))
    throw CompileError(op.origin, str(mnemonic(op.kind), ": dim is out of range"));
  const auto dim = static_cast<std::size_t>(op.attrs.integer("dim"));
  map.whole = loops.substr(dim, 1);
  map.operands.push_back(loops);
  if (!keep) loops.erase(dim, 1);
  map.results.push_back(loops);
  return map;
}

IndexMap map_arg_max(const Op& op) { return scan_map(op, false); }
IndexMap map_cum_sum(const Op& op) { return scan_map(op, true); }

}  // namespace

constinit const OpDef kReduceSum{
    .map = map_reduce, .linear = Linearity::Joint, .check = check_reduce, .grad = grad_reduce_sum};
constinit const OpDef kReduceMax{
    .map = map_reduce, .reduce = ReduceOp::Max, .check = check_reduce, .grad = grad_reduce_extreme};
constinit const OpDef kReduceMin{
    .map = map_reduce, .reduce = ReduceOp::Min, .check = check_reduce, .grad = grad_reduce_extreme};
constinit const OpDef kReduceProd{
    .map = map_reduce, .reduce = ReduceOp::Prod, .check = check_reduce};
constinit const OpDef kArgMax{.map = map_arg_max, .dtype = ResultDtype::I64, .check = check_dim};
constinit const OpDef kCumSum{
    .map = map_cum_sum, .linear = Linearity::Joint, .check = check_dim, .grad = grad_cum_sum};

}  // namespace tessera
