// safetensors files: an 8-byte header length, a JSON header, raw little-endian data. Headers are
// not trusted.
#pragma once
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "ir/base/tensor.h"

namespace tessera {

struct SafetensorsEntry {
  DType dtype = DType::F32;
  Shape shape;
  std::uint64_t offset = 0;  // from the start of the file
  std::uint64_t bytes = 0;
};

struct SafetensorsIndex {
  std::map<std::string, SafetensorsEntry> tensors;
  std::map<std::string, std::string> metadata;
};

// Throws CompileError naming the file for anything malformed: lengths, offsets, overlaps with the
// end, types.
SafetensorsIndex read_safetensors_index(const std::filesystem::path& path);
Tensor read_safetensor(const std::filesystem::path& path, const SafetensorsEntry& entry);
std::map<std::string, Tensor> read_safetensors(const std::filesystem::path& path);

// Writes to a temporary file beside `path`, syncs and renames it. Returns where each tensor lies.
SafetensorsIndex write_safetensors(const std::filesystem::path& path,
                                   const std::map<std::string, Tensor>& tensors,
                                   const std::map<std::string, std::string>& metadata = {});

}  // namespace tessera
