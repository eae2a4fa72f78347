#include "ir/dump.h"

#include "ir/base/diag.h"
#include "ir/base/file.h"
#include "ir/base/safetensors.h"
#include "ir/base/text.h"
#include "ir/parse.h"
#include "ir/print.h"

namespace tessera {
namespace {

constexpr const char* kConstantsFile = "constants.safetensors";

// Dumps of one pipeline share the file: constants are named by content, so they are only ever
// added.
void add_constants(const Module& module, const std::filesystem::path& path) {
  std::map<std::string, Tensor> tensors;
  std::error_code error;
  SafetensorsIndex known;
  if (std::filesystem::exists(path, error)) known = read_safetensors_index(path);
  for (const auto& [key, tensor] : module.constants) {
    if (tensor.size() > kInlineConstant && !known.tensors.contains(key)) tensors[key] = tensor;
  }
  if (tensors.empty()) return;
  for (const auto& [key, entry] : known.tensors) tensors[key] = read_safetensor(path, entry);
  write_safetensors(path, tensors);
}

}  // namespace

void write_module(const Module& module, const std::filesystem::path& path) {
  add_constants(module, path.parent_path() / kConstantsFile);
  write_text(path, to_text(module, {kConstantsFile}));
}

Module read_module(const std::filesystem::path& path) {
  const auto load = [&](const std::string& file, const std::string& key) {
    if (file.find('/') != std::string::npos)
      throw CompileError(path.string(),
                         str("constants file ", in_quotes(file), " is not beside the module"));
    const std::filesystem::path beside = path.parent_path() / file;
    const SafetensorsIndex index = read_safetensors_index(beside);
    const auto found = index.tensors.find(key);
    if (found == index.tensors.end())
      throw CompileError(beside.string(), str("has no tensor ", in_quotes(key)));
    return read_safetensor(beside, found->second);
  };
  return parse_module(read_text(path), path.string(), load);
}

}  // namespace tessera
