// Model graphs without weights, as an exporter would write them: for asking what a model would take
// before owning one. The initializers refer to a file that does not exist.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>

#include "ir/base/dtype.h"

namespace tessera {

struct ZooModel {
  std::string family;  // gpt (learned positions, LayerNorm, GELU, tied head) or llama (rotary,
                       // RMSNorm, SwiGLU, grouped heads)
  std::int64_t layers = 12, hidden = 768, heads = 12, vocabulary = 50257, sequence = 2048;
  std::int64_t kv_heads = 0;  // llama: key and value heads; 0: as many as heads
  std::int64_t mlp = 0;       // 0: 4 hidden for gpt, 8/3 hidden rounded up to 256 for llama
  DType dtype = DType::F32;
};

// Inputs: input_ids [batch, sequence]; output: logits [batch, sequence, vocabulary]. Throws
// CompileError for sizes that make no model.
void write_zoo_model(const ZooModel& model, const std::filesystem::path& path);

}  // namespace tessera
