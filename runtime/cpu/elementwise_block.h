// One elementwise instruction over one block of contiguous elements.
#pragma once
#include <cstddef>
#include <cstdint>

#include "ir/base/op_kind.h"

namespace tessera::cpu {

struct BlockOperands {
  const void* a = nullptr;
  const void* b = nullptr;
  const void* c = nullptr;
};

// `dtype` is that of the operand the op computes in (the last one, of select and comparisons too).
void run_block(OpKind kind, DType dtype, const BlockOperands& in, void* out, std::size_t count);
void cast_block(DType from, DType to, const void* in, void* out, std::size_t count);

}  // namespace tessera::cpu
