// Plans as folders.
#include <unistd.h>

#include "ir/base/diag.h"
#include "ir/base/file.h"
#include "ir/base/safetensors.h"
#include "ir/base/sha256.h"
#include "ir/base/text.h"
#include "runtime/plan.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

// Only a plan may be replaced: a slip of the hand must not delete somebody's folder.
void check_replaceable(const fs::path& folder) {
  std::error_code error;
  if (!fs::exists(folder, error)) return;
  const bool is_plan = fs::is_directory(folder, error) &&
                       (fs::exists(folder / kPlanFile, error) || fs::is_empty(folder, error));
  if (!is_plan)
    throw CompileError(folder.string(), "exists and is not a plan",
                       {"choose another name, or remove it"});
}

}  // namespace

void write_plan(const Plan& given, const fs::path& folder,
                const std::map<std::string, Tensor>& inline_weights) {
  check_replaceable(folder);
  Plan plan = given;  // inline weights get their offsets
  const fs::path target = folder.lexically_normal().has_filename()
                              ? folder.lexically_normal()
                              : folder.lexically_normal().parent_path();
  const fs::path temporary = target.string() + str(".tmp", ::getpid());
  std::error_code error;
  fs::create_directories(temporary, error);
  if (error) throw CompileError(folder.string(), "cannot write here", {error.message()});
  try {
    if (!inline_weights.empty()) {
      const SafetensorsIndex index =
          write_safetensors(temporary / "weights.safetensors", inline_weights);
      for (auto& [arg, source] : plan.weights) {
        const auto found = index.tensors.find(source.tensor);
        if (source.file != "weights.safetensors" || found == index.tensors.end()) continue;
        source.offset = found->second.offset;
        source.sha256 = sha256_of_file(temporary / source.file, source.offset, source.bytes);
      }
    }
    std::map<std::string, Tensor> large;
    for (const auto& [key, tensor] : plan.constants) {
      if (tensor.size() > kPlanInlineConstant) large[key] = tensor;
    }
    if (!large.empty()) write_safetensors(temporary / kPlanConstantsFile, large);
    write_text(temporary / kPlanFile, to_text(plan));
  } catch (...) {
    fs::remove_all(temporary, error);
    throw;
  }
  fs::remove_all(target, error);
  fs::rename(temporary, target, error);
  if (error) throw CompileError(folder.string(), "cannot be put in place", {error.message()});
}

Plan read_plan(const fs::path& folder) {
  const fs::path file = folder / kPlanFile;
  std::error_code error;
  if (!fs::exists(file, error))
    throw CompileError(folder.string(), "is not a plan: it has no plan.txt",
                       {"plans are made by `tessera compile ... -o OUT.plan`"});
  return parse_plan(read_text(file), file.string(), folder);
}

}  // namespace tessera
