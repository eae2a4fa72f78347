// From a runtime dtype to a C++ type: with_float(dtype, op, [](auto zero) { using T =
// decltype(zero); ... }).
#pragma once
#include <cstdint>

#include "ir/base/diag.h"
#include "ir/base/text.h"
#include "runtime/cpu/kernels.h"

namespace tessera::cpu {

[[noreturn]] inline void refuse_dtype(OpKind kind, DType dtype) {
  throw CompileError("", str(mnemonic(kind), ": the CPU has no kernel for dtype ", name(dtype)));
}

template <class F>
void with_float(DType dtype, OpKind kind, F&& run) {
  switch (dtype) {
    case DType::F32:
      return run(float{});
    case DType::F64:
      return run(double{});
    default:
      refuse_dtype(kind, dtype);
  }
}

// Types with arithmetic: floats and the integers of indices.
template <class F>
void with_number(DType dtype, OpKind kind, F&& run) {
  switch (dtype) {
    case DType::F32:
      return run(float{});
    case DType::F64:
      return run(double{});
    case DType::I64:
      return run(std::int64_t{});
    case DType::I32:
      return run(std::int32_t{});
    default:
      refuse_dtype(kind, dtype);
  }
}

template <class F>
void with_index(DType dtype, OpKind kind, F&& run) {
  switch (dtype) {
    case DType::I64:
      return run(std::int64_t{});
    case DType::I32:
      return run(std::int32_t{});
    default:
      refuse_dtype(kind, dtype);
  }
}

// Movement only needs the element's size.
template <class F>
void with_size_of(DType dtype, F&& run) {
  switch (byte_size(dtype)) {
    case 1:
      return run(std::uint8_t{});
    case 2:
      return run(std::uint16_t{});
    case 4:
      return run(std::uint32_t{});
    default:
      return run(std::uint64_t{});
  }
}

}  // namespace tessera::cpu
