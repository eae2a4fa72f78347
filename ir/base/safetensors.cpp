#include "ir/base/safetensors.h"

#include <fstream>
#include <nlohmann/json.hpp>

#include "ir/base/diag.h"
#include "ir/base/file.h"

namespace tessera {
namespace {

using nlohmann::json;
constexpr std::uint64_t kMaxHeader = 100u << 20;

DType dtype_of(const std::string& text, const std::string& where) {
  for (const DTypeRow& row : kDTypes) {
    if (row.safetensors == text) return row.dtype;
  }
  throw CompileError(where, str("dtype '", text, "' is not supported"));
}

SafetensorsEntry parse_entry(const json& item, std::uint64_t data_start, std::uint64_t file_size,
                             const std::string& where) {
  SafetensorsEntry entry;
  entry.dtype = dtype_of(item.at("dtype").get<std::string>(), where);
  entry.shape = item.at("shape").get<Shape>();
  const auto range = item.at("data_offsets").get<std::vector<std::uint64_t>>();
  if (!sizes_are_sane(entry.shape) || range.size() != 2 || range[0] > range[1])
    throw CompileError(where, "malformed shape or data_offsets");
  entry.bytes = range[1] - range[0];
  entry.offset = data_start + range[0];
  if (range[1] > file_size - data_start) {
    throw CompileError(where, str("data ends at byte ", range[1], " but the file has ",
                                  file_size - data_start, " bytes of data"));
  }
  if (entry.bytes != static_cast<std::uint64_t>(elements(entry.shape)) * byte_size(entry.dtype)) {
    throw CompileError(where, str("has ", entry.bytes, " bytes, its shape needs another count"));
  }
  return entry;
}

}  // namespace

SafetensorsIndex read_safetensors_index(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::error_code error;
  const std::uint64_t file_size = std::filesystem::file_size(path, error);
  if (!in || error) throw CompileError(path.string(), "cannot read the file");
  std::uint64_t header_size = 0;
  if (!in.read(reinterpret_cast<char*>(&header_size), sizeof header_size) ||
      header_size > kMaxHeader || header_size > file_size - 8) {
    throw CompileError(path.string(), "is not a safetensors file, or is damaged");
  }
  std::string header(header_size, '\0');
  in.read(header.data(), static_cast<std::streamsize>(header_size));
  SafetensorsIndex index;
  try {
    const json parsed = json::parse(header);
    for (const auto& [name, item] : parsed.items()) {
      if (name == "__metadata__") {
        index.metadata = item.get<std::map<std::string, std::string>>();
      } else {
        index.tensors[name] = parse_entry(item, 8 + header_size, file_size,
                                          str(path.string(), ": tensor '", name, "'"));
      }
    }
  } catch (const json::exception&) {
    throw CompileError(path.string(), "is not a safetensors file, or is damaged",
                       {"its header is not the expected JSON"});
  }
  return index;
}

Tensor read_safetensor(const std::filesystem::path& path, const SafetensorsEntry& entry) {
  Tensor tensor(entry.dtype, entry.shape);
  std::ifstream in(path, std::ios::binary);
  if (!in.seekg(static_cast<std::streamoff>(entry.offset)) ||
      !in.read(reinterpret_cast<char*>(tensor.mutable_data()),
               static_cast<std::streamsize>(tensor.bytes()))) {
    throw CompileError(path.string(), "cannot read the file");
  }
  return tensor;
}

std::map<std::string, Tensor> read_safetensors(const std::filesystem::path& path) {
  std::map<std::string, Tensor> tensors;
  for (const auto& [name, entry] : read_safetensors_index(path).tensors)
    tensors[name] = read_safetensor(path, entry);
  return tensors;
}

SafetensorsIndex write_safetensors(const std::filesystem::path& path,
                                   const std::map<std::string, Tensor>& tensors,
                                   const std::map<std::string, std::string>& metadata) {
  json header = json::object();
  SafetensorsIndex index;
  index.metadata = metadata;
  if (!metadata.empty()) header["__metadata__"] = metadata;
  std::uint64_t at = 0;
  for (const auto& [name, tensor] : tensors) {
    header[name] = {{"dtype", std::string(row(tensor.dtype()).safetensors)},
                    {"shape", tensor.shape()},
                    {"data_offsets", {at, at + tensor.bytes()}}};
    index.tensors[name] = {tensor.dtype(), tensor.shape(), at, tensor.bytes()};
    at += tensor.bytes();
  }
  std::string text = header.dump();
  text.append((8 - text.size() % 8) % 8, ' ');  // data starts aligned
  write_atomically(path, [&](std::ostream& out) {
    const std::uint64_t size = text.size();
    out.write(reinterpret_cast<const char*>(&size), sizeof size);
    out.write(text.data(), static_cast<std::streamsize>(text.size()));
    for (const auto& [name, tensor] : tensors) {
      out.write(reinterpret_cast<const char*>(tensor.data()),
                static_cast<std::streamsize>(tensor.bytes()));
    }
  });
  for (auto& [name, entry] : index.tensors) entry.offset += 8 + text.size();
  return index;
}

}  // namespace tessera
