// The contraction. Everything else that multiplies matrices is written as an einsum.
#include "ir/base/text.h"
#include "ir/op_def.h"
#include "ir/ops/grads.h"

namespace tessera {
namespace {

IndexMap map_einsum(const Op& op) { return parse_index_map(op.attrs.text("spec"), op.origin); }

std::string check_einsum(const Op& op) {
  const IndexMap map = map_einsum(op);
  if (op.operands.empty() || op.operands.size() > 2) return "takes one or two operands";
  if (map.results.size() != 1) return "has one result";
  for (const std::string& term : map.operands) {
    for (char loop : term) {
      if (term.find(loop) != term.rfind(loop))
        return str("loop '", loop, "' occurs twice in one operand");
    }
  }
  for (char loop : map.results[0]) {
    if (map.results[0].find(loop) != map.results[0].rfind(loop)) {
      return str("loop '", loop, "' occurs twice in the result");
    }
    bool read = false;
    for (const std::string& term : map.operands)
      read = read || term.find(loop) != std::string::npos;
    if (!read) return str("loop '", loop, "' of the result is in no operand");
  }
  for (const Value* operand : op.operands) {
    if (operand->type.dtype != op.operands[0]->type.dtype) return "operands have different dtypes";
  }
  return {};
}

}  // namespace

// c[m,n] = sum over k of a[m,k] b[k,n], over any letters. k is absent from the result: cutting it
// leaves a partial sum.
constinit const OpDef kEinsum{
    .map = map_einsum, .linear = Linearity::Multi, .check = check_einsum, .grad = grad_einsum};

}  // namespace tessera
