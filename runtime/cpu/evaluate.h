// Runs single ops on host tensors with the CPU kernels. The frontend's folding, fold_constants and
// the law tests use it, so that there is one meaning of every op.
#pragma once
#include <span>
#include <vector>

#include "ir/base/tensor.h"
#include "ir/base/type.h"
#include "runtime/cpu/kernels.h"

namespace tessera {

// The op on whole tensors. `result_types` give dtype and sizes of the results. Not for constants
// and collectives.
std::vector<Tensor> evaluate(OpKind kind, const AttrList& attrs, std::span<const Tensor> operands,
                             std::span<const Type> result_types);

// What one rank computes: operands are its local pieces of values of `operand_types`.
std::vector<Tensor> evaluate_local(OpKind kind, const AttrList& attrs,
                                   std::span<const Tensor> operands,
                                   std::span<const Type> operand_types,
                                   std::span<const Type> result_types, const Grid& grid,
                                   const Coordinates& at);

}  // namespace tessera
