// What can be said about a job before it starts: flags that would have no effect, and files that
// could not be written at its end.
#include <unistd.h>

#include "ir/base/diag.h"
#include "ir/base/text.h"
#include "runtime/session.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

void check_writable_file(const char* flag, const fs::path& path) {
  if (path.empty()) return;
  std::error_code error;
  if (fs::is_directory(path, error))
    throw CompileError(flag, str(path.string(), " is a folder; it needs the name of a file"));
  const fs::path folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
  if (!fs::is_directory(folder, error))
    throw CompileError(flag, str("the folder ", folder.string(), " does not exist"),
                       {str("mkdir -p ", folder.string())});
  const fs::path target = fs::exists(path, error) ? path : folder;
  if (::access(target.c_str(), W_OK) != 0)
    throw CompileError(flag, str(target.string(), " cannot be written"));
}

void refuse(bool given, const char* flag, const char* why) {
  if (given) throw CompileError(flag, why);
}

}  // namespace

void check_options(const Plan& plan, const SessionOptions& options) {
  const bool trains = plan.find("micro") != nullptr;
  if (trains) {
    refuse(!options.outputs.empty(), "--output",
           "this plan trains: it has no outputs; compile the model with --infer for those");
  } else {
    const char* why = "is for training; this plan is for inference";
    refuse(!options.dump_gradients.empty(), "--dump-gradients", why);
    refuse(!options.log.empty(), "--log", why);
    refuse(!options.lr.empty(), "--lr", why);
    refuse(!options.checkpoint.empty(), "--checkpoint", why);
    refuse(!options.resume.empty(), "--resume", why);
    refuse(options.steps != 1, "--steps", why);
  }
  refuse(options.checkpoint_every < 0, "--checkpoint-every", "counts steps; it is negative");
  refuse(options.checkpoint_every > 0 && options.checkpoint.empty(), "--checkpoint-every",
         "needs --checkpoint FOLDER");
  refuse(options.random_weights && !options.resume.empty(), "--random-weights",
         "and --resume both say where weights come from; give one");
  refuse(!options.batches.tokens.empty() && options.batches.data.empty(), "--tokens",
         "needs --data TOKENS");
  options.execution.links.check(plan.grid);
  check_writable_file("--dump-gradients", options.dump_gradients);
  check_writable_file("--save-weights", options.save_weights);
  check_writable_file("--log", options.log);
  check_writable_file("--trace", options.trace);
  for (const auto& [name, path] : options.outputs) check_writable_file("--output", path);
}

}  // namespace tessera
