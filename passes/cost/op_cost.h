// What one op takes on one device: the rank at coordinate 0, which holds the largest pieces.
#pragma once
#include <span>

#include "ir/base/op_kind.h"
#include "ir/base/type.h"
#include "passes/cost/machine.h"

namespace tessera {

// An op as the model sees it: works for ops of the IR and for steps of a plan.
struct OpView {
  OpKind kind = OpKind::Add;
  const AttrList* attrs = nullptr;
  std::span<const Type* const> operands;
  std::span<const Type* const> results;
};

struct Work {
  double flops = 0;     // on this device; 2 for a multiplication and an addition
  double bytes = 0;     // read and written
  double smallest = 0;  // of m, n and k, for contractions
  DType dtype = DType::F32;
};

// 0 flops for ops whose arithmetic hides behind their bytes.
Work work_of(const OpView& op, const Grid& grid);

// The roofline: the longer of arithmetic (peak times efficiency) and memory traffic, and one
// launch. Collectives: collective_cost of the bytes that their types give, or a copy for those that
// move nothing between ranks.
double op_seconds(const Machine& machine, const Grid& grid, const OpView& op);
// A fused step reads and writes its outer buffers once.
double fused_seconds(const Machine& machine, const Grid& grid,
                     std::span<const Type* const> operands, std::span<const Type* const> results);
double seconds_of(const Machine& machine, const Work& work);

// The bytes that collective_cost asks for.
double collective_bytes(const OpView& op, const Grid& grid);

}  // namespace tessera
