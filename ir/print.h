// Module -> text. Generic: no per-op code. The text parses back to the same module (ir/parse.h).
#pragma once
#include <map>
#include <string>

#include "ir/graph.h"

namespace tessera {

// Constants of more elements than this are not printed inline when a side file holds them.
inline constexpr std::int64_t kInlineConstant = 64;

struct PrintOptions {
  // File name (relative to the text) of the safetensors that holds the large constants; empty = all
  // inline.
  std::string constants_file;
};

std::string to_text(const Module& module, const PrintOptions& options = {});
std::string to_text(const Op& op, const Grid& grid);  // one line, no indentation, no newline
// i64[3] = (1,2,3): an inline constant, after its name.
std::string constant_text(const Tensor& tensor);

}  // namespace tessera
