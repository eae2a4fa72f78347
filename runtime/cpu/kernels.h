// CPU kernels: one function per op kind over local, dense, row-major tensors. They know nothing of
// grids: a cut dimension shows as a local size and a global offset, which kernels with positions
// (iota, gather, causal masks, label lookups) take into account. Scratch is thread-local to the
// caller; kernels use one thread.
#pragma once
#include <span>
#include <vector>

#include "ir/base/op_kind.h"
#include "ir/base/shape.h"

namespace tessera::cpu {

struct TensorArg {
  DType dtype = DType::F32;
  Shape shape;                // local sizes
  Shape offsets;              // global position of element 0 of each dimension
  Shape global;               // global sizes
  std::byte* data = nullptr;  // may be anything when shape has a zero

  std::int64_t size() const { return elements(shape); }
  template <class T>
  T* as() const {
    return reinterpret_cast<T*>(data);
  }
};

struct KernelCall {
  OpKind kind = OpKind::Add;
  const AttrList* attrs = nullptr;
  std::span<const TensorArg> operands;
  std::span<const TensorArg> results;
};

using Kernel = void (*)(const KernelCall&);

// The kernel of a kind; null for collectives and reshard (runtime/comm.h) and for constant (its
// data is loaded).
Kernel find_kernel(OpKind kind);

// A chain of elementwise ops (fill, iota, broadcast, cast, select included) run in one pass over
// blocks that stay in cache. All instruction results have the chain's local shape, except sources
// of a broadcast.
struct FusedInstruction {
  OpKind kind = OpKind::Add;
  AttrList attrs;
  std::vector<int> operands;  // slots
  int result = 0;             // slot
};

// Slots 0..inputs-1 are buffers read, the next `outputs` ones are named in output_slots; others are
// temporaries.
struct FusedProgram {
  std::vector<FusedInstruction> code;
  std::vector<TensorArg>
      slots;  // dtype, shape, offsets, global of every slot; data of inputs set by the caller
  int inputs = 0;
  std::vector<int> output_slots;  // written to `outputs` of run_fused, in order
};

// `inputs` and `outputs` are base addresses. An output may alias an input of equal shape and
// element size.
void run_fused(const FusedProgram& program, std::span<std::byte* const> inputs,
               std::span<std::byte* const> outputs);

}  // namespace tessera::cpu
