// Fused elementwise chains: the program runs block by block, so that temporaries stay in cache.
// Broadcasts and iotas are walked along the chain's index space; everything else reads contiguous
// blocks.
#include <algorithm>
#include <cstring>

#include "runtime/cpu/dispatch.h"
#include "runtime/cpu/elementwise_block.h"
#include "runtime/cpu/kernel_list.h"
#include "runtime/cpu/scratch.h"

namespace tessera::cpu {
namespace {

constexpr std::int64_t kBlock = 512;
constexpr int kScratchSlot = 16;
constexpr std::size_t kWidest = 8;

// A walk over the chain's index space in which an operand steps by `stride` along each dimension.
// Dimensions that step alike are joined.
struct Walk {
  struct Dim {
    std::int64_t size, stride;
  };
  std::vector<Dim> dims;  // outermost first; at least one

  void add(std::int64_t size, std::int64_t stride) {
    if (size == 1) return;
    if (!dims.empty() && dims.back().stride == stride * size) {
      dims.back() = {dims.back().size * size, stride};
    } else {
      dims.push_back({size, stride});
    }
  }
  void finish() {
    if (dims.empty()) dims.push_back({1, 0});
  }

  // Calls run(offset of the operand, count, stride) for runs that cover `count` elements from flat
  // index `start`.
  template <class F>
  void each_run(std::int64_t start, std::int64_t count, F run) const {
    const Dim& inner = dims.back();
    while (count > 0) {
      std::int64_t rest = start / inner.size;
      const std::int64_t at = start % inner.size;
      std::int64_t offset = at * inner.stride;
      for (std::size_t d = dims.size() - 1; d-- > 0;) {
        offset += rest % dims[d].size * dims[d].stride;
        rest /= dims[d].size;
      }
      const std::int64_t length = std::min(count, inner.size - at);
      run(offset, length, inner.stride);
      start += length;
      count -= length;
    }
  }
};

Walk broadcast_walk(const Shape& source, const Ints& dims, const Shape& result) {
  const std::vector<std::int64_t> dense = row_major_strides(source);
  std::vector<std::int64_t> strides(result.size(), 0);
  for (std::size_t i = 0; i < dims.size(); ++i)
    strides[static_cast<std::size_t>(dims[i])] = source[i] == 1 ? 0 : dense[i];
  Walk walk;
  for (std::size_t d = 0; d < result.size(); ++d) walk.add(result[d], strides[d]);
  walk.finish();
  return walk;
}

Walk iota_walk(std::int64_t dim, const Shape& result) {
  Walk walk;
  for (std::size_t d = 0; d < result.size(); ++d)
    walk.add(result[d], static_cast<std::int64_t>(d) == dim ? 1 : 0);
  walk.finish();
  return walk;
}

template <class T>
void walk_block(const Walk& walk, const T* source, std::int64_t start, std::int64_t count, T* out) {
  walk.each_run(start, count, [&](std::int64_t offset, std::int64_t length, std::int64_t stride) {
    if (stride == 1) {
      std::memcpy(out, source + offset, static_cast<std::size_t>(length) * sizeof(T));
    } else if (stride == 0) {
      std::fill(out, out + length, source[offset]);
    } else {
      for (std::int64_t i = 0; i < length; ++i) out[i] = source[offset + i * stride];
    }
    out += length;
  });
}

void iota_block(const Walk& walk, std::int64_t first, std::int64_t start, std::int64_t count,
                DType dtype, std::byte* out) {
  with_number(dtype, OpKind::Iota, [&](auto zero) {
    using T = decltype(zero);
    T* target = reinterpret_cast<T*>(out);
    walk.each_run(start, count, [&](std::int64_t offset, std::int64_t length, std::int64_t stride) {
      for (std::int64_t i = 0; i < length; ++i)
        target[i] = static_cast<T>(first + offset + i * stride);
      target += length;
    });
  });
}

void fill_block(double value, DType dtype, std::int64_t count, std::byte* out) {
  std::uint64_t bits = 0;
  cast_block(DType::F64, dtype, &value, &bits, 1);
  with_size_of(dtype, [&](auto zero) {
    using T = decltype(zero);
    T element;
    std::memcpy(&element, &bits, sizeof element);
    std::fill(reinterpret_cast<T*>(out), reinterpret_cast<T*>(out) + count, element);
  });
}

class Runner {
 public:
  Runner(const FusedProgram& program, std::span<std::byte* const> inputs,
         std::span<std::byte* const> outputs)
      : program_(program), inputs_(inputs), outputs_(outputs), walks_(program.code.size()) {
    TESSERA_CHECK(!program.code.empty(), "an empty fused program");
    shape_ = program.slots[static_cast<std::size_t>(program.code.back().result)].shape;
    for (std::size_t i = 0; i < program.code.size(); ++i) {
      const FusedInstruction& op = program.code[i];
      if (op.kind == OpKind::Broadcast)
        walks_[i] = broadcast_walk(slot(op.operands[0]).shape, op.attrs.ints("dims"), shape_);
      if (op.kind == OpKind::Iota) walks_[i] = iota_walk(op.attrs.integer("dim"), shape_);
    }
    temporaries_ = scratch_bytes(kScratchSlot, program.slots.size() * kBlock * kWidest);
  }

  void run() {
    const std::int64_t total = elements(shape_);
    for (std::int64_t start = 0; start < total; start += kBlock)
      run_one(start, std::min(kBlock, total - start));
  }

 private:
  const TensorArg& slot(int index) const { return program_.slots[static_cast<std::size_t>(index)]; }
  std::byte* temporary(int index) const {
    return temporaries_ + static_cast<std::size_t>(index) * kBlock * kWidest;
  }

  const std::byte* read(int index, std::int64_t start) const {
    if (index >= program_.inputs) return temporary(index);
    return inputs_[static_cast<std::size_t>(index)] +
           static_cast<std::size_t>(start) * byte_size(slot(index).dtype);
  }

  void run_one(std::int64_t start, std::int64_t count) const {
    for (std::size_t i = 0; i < program_.code.size(); ++i)
      step(program_.code[i], walks_[i], start, count);
    // Outputs are written last, so that one may lie where an input of the same block was.
    for (std::size_t i = 0; i < program_.output_slots.size(); ++i) {
      const int from = program_.output_slots[i];
      const std::size_t bytes = byte_size(slot(from).dtype);
      std::memcpy(outputs_[i] + static_cast<std::size_t>(start) * bytes, read(from, start),
                  static_cast<std::size_t>(count) * bytes);
    }
  }

  void step(const FusedInstruction& op, const Walk& walk, std::int64_t start,
            std::int64_t count) const {
    std::byte* out = temporary(op.result);
    const TensorArg& result = slot(op.result);
    if (op.kind == OpKind::Fill)
      return fill_block(op.attrs.number("value"), result.dtype, count, out);
    if (op.kind == OpKind::Iota) {
      const auto dim = static_cast<std::size_t>(op.attrs.integer("dim"));
      return iota_block(walk, result.offsets[dim], start, count, result.dtype, out);
    }
    const TensorArg& last = slot(op.operands.back());
    if (op.kind == OpKind::Broadcast) {
      with_size_of(last.dtype, [&](auto zero) {
        using T = decltype(zero);
        const std::byte* source = op.operands[0] < program_.inputs
                                      ? inputs_[static_cast<std::size_t>(op.operands[0])]
                                      : temporary(op.operands[0]);
        walk_block<T>(walk, reinterpret_cast<const T*>(source), start, count,
                      reinterpret_cast<T*>(out));
      });
      return;
    }
    BlockOperands in{read(op.operands[0], start), nullptr, nullptr};
    if (op.operands.size() > 1) in.b = read(op.operands[1], start);
    if (op.operands.size() > 2) in.c = read(op.operands[2], start);
    if (op.kind == OpKind::Cast)
      return cast_block(last.dtype, result.dtype, in.a, out, static_cast<std::size_t>(count));
    run_block(op.kind, last.dtype, in, out, static_cast<std::size_t>(count));
  }

  const FusedProgram& program_;
  std::span<std::byte*const> inputs_, outputs_;
  Shape shape_;
  std::vector<Walk> walks_;
  std::byte* temporaries_ = nullptr;
};

}  // namespace

void run_fused(const FusedProgram& program, std::span<std::byte* const> inputs,
               std::span<std::byte* const> outputs) {
  Runner(program, inputs, outputs).run();
}

// One op alone is a program of one instruction.
void elementwise_kernel(const KernelCall& call) {
  FusedProgram program;
  program.inputs = static_cast<int>(call.operands.size());
  std::vector<std::byte*> inputs;
  FusedInstruction instruction{call.kind, *call.attrs, {}, program.inputs};
  for (const TensorArg& operand : call.operands) {
    instruction.operands.push_back(static_cast<int>(inputs.size()));
    inputs.push_back(operand.data);
    program.slots.push_back(operand);
  }
  program.slots.push_back(call.results[0]);
  program.output_slots = {program.inputs};
  program.code.push_back(std::move(instruction));
  run_fused(program, inputs, std::vector<std::byte*>{call.results[0].data});
}

}  // namespace tessera::cpu
