#include "runtime/checkpoint.h"

#include <unistd.h>

#include <iomanip>
#include <nlohmann/json.hpp>
#include <sstream>

#include "ir/base/diag.h"
#include "ir/base/file.h"
#include "ir/base/safetensors.h"
#include "ir/base/sha256.h"
#include "ir/base/text.h"
#include "runtime/parameter_files.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;
constexpr const char* kState = "state.safetensors";
constexpr const char* kManifest = "manifest.json";

std::string folder_name(std::int64_t step) {
  std::ostringstream name;
  name << "step-" << std::setw(8) << std::setfill('0') << step;
  return name.str();
}

bool is_complete(const fs::path& folder) {
  std::error_code error;
  return fs::exists(folder / kManifest, error) && fs::exists(folder / kState, error);
}

fs::path newest(const fs::path& folder) {
  if (is_complete(folder)) return folder;
  fs::path best;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("step-") && is_complete(entry.path()) &&
        entry.path().filename() > best.filename())
      best = entry.path();
  }
  if (best.empty()) throw CompileError(folder.string(), "has no complete checkpoint");
  return best;
}

void write_checkpoint(const fs::path& folder, const std::map<std::string, Tensor>& tensors,
                      const TrainingState& state) {
  const fs::path target = folder / folder_name(state.step);
  const fs::path temporary = folder / str(".", folder_name(state.step), ".tmp", ::getpid());
  std::error_code error;
  fs::create_directories(folder, error);
  fs::remove_all(temporary, error);
  fs::create_directories(temporary, error);
  if (error)
    throw CompileError(folder.string(), str("cannot write checkpoints here: ", error.message()));
  write_safetensors(temporary / kState, tensors);
  const nlohmann::json manifest{
      {"format", 1},
      {"step", state.step},
      {"seed", state.seed},
      {"sha256", sha256_of_file(temporary / kState, 0, fs::file_size(temporary / kState))}};
  write_text(temporary / kManifest, manifest.dump(2) + "\n");
  sync_to_disk(temporary);
  fs::remove_all(target, error);
  fs::rename(temporary, target);
  sync_to_disk(folder);
}

}  // namespace

void save_checkpoint(Executor& executor, const fs::path& folder, const TrainingState& state) {
  std::map<std::string, Tensor> all;
  for (const std::string& suffix : parameter_suffixes(executor.plan())) {
    for (auto& [name, tensor] : collect_in_file_layout(executor, suffix))
      all[str(name, "|", suffix)] = tensor;
  }
  if (executor.world().rank() == 0) write_checkpoint(folder, all, state);
  executor.world().barrier("save checkpoint");
}

TrainingState load_checkpoint(Executor& executor, const fs::path& folder) {
  const fs::path from = newest(folder);
  const fs::path file = from / kState;
  TrainingState state;
  try {
    const auto manifest = nlohmann::json::parse(read_text(from / kManifest));
    state.step = manifest.at("step").get<std::int64_t>();
    state.seed = manifest.at("seed").get<std::uint64_t>();
    if (executor.world().rank() == 0 &&
        manifest.at("sha256").get<std::string>() != sha256_of_file(file, 0, fs::file_size(file))) {
      throw CompileError(file.string(), "the checkpoint is damaged: its checksum does not match");
    }
  } catch (const nlohmann::json::exception&) {
    throw CompileError((from / kManifest).string(), "is not a checkpoint's manifest");
  }
  const SafetensorsIndex index = read_safetensors_index(file);
  for (const std::string& suffix : parameter_suffixes(executor.plan())) {
    store_from_file_layout(
        executor, suffix,
        [&](const std::string& name) {
          const auto found = index.tensors.find(str(name, "|", suffix));
          if (found == index.tensors.end())
            throw CompileError(
                file.string(),
                str("has no ", suffix.empty() ? std::string("weights") : tessera::in_quotes(suffix),
                    " of ", tessera::in_quotes(name)));
          return read_safetensor(file, found->second);
        },
        file.string());
  }
  return state;
}

}  // namespace tessera
