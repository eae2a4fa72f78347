// Scratch memory of the calling thread, in numbered slots that grow and are kept. A kernel's slots
// are its own for the time of one call; kernels do not call each other with slots in use, except
// permute (no scratch) and gemm (none).
#pragma once
#include <cstddef>
#include <memory>
#include <vector>

namespace tessera::cpu {

inline std::byte* scratch_bytes(int slot, std::size_t bytes) {
  struct Block {
    std::unique_ptr<std::byte[]> data;
    std::size_t bytes = 0;
  };
  thread_local std::vector<Block> blocks;
  if (blocks.size() <= static_cast<std::size_t>(slot))
    blocks.resize(static_cast<std::size_t>(slot) + 1);
  Block& block = blocks[static_cast<std::size_t>(slot)];
  if (block.bytes < bytes) {
    block.data.reset(new std::byte[bytes]);
    block.bytes = bytes;
  }
  return block.data.get();
}

template <class T>
T* scratch(int slot, std::int64_t count) {
  return reinterpret_cast<T*>(
      scratch_bytes(slot, static_cast<std::size_t>(count) * sizeof(T) + 64));
}

}  // namespace tessera::cpu
