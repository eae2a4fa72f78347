// Damaged models: a plan that runs or a diagnostic, never a crash, a hang or a half-written plan.
// The damage is seeded, so that a failure comes back.
#include "ir/base/file.h"
#include "ir/base/random.h"
#include "test/support/compile.h"

namespace tessera::test {
namespace {

// Per model; TESSERA_MUTANTS=1000 looks longer.
std::uint64_t mutants() {
  const char* text = std::getenv("TESSERA_MUTANTS");
  return text != nullptr && *text != 0 ? std::strtoull(text, nullptr, 10) : 60;
}
constexpr std::int64_t kSmallArena = 64 << 20;

// Cuts, flipped bytes, and runs of bytes that are copied elsewhere.
std::string damaged(std::string bytes, std::uint64_t model, std::uint64_t mutant) {
  std::uint64_t draw = 0;
  const auto below = [&](std::size_t limit) {
    return random_bits(model, mutant, draw++) % std::max<std::size_t>(1, limit);
  };
  if (mutant % 6 == 0) bytes.resize(below(bytes.size()));
  const std::size_t flips = mutant % 6 == 0 ? 0 : 1 + below(4);
  for (std::size_t i = 0; i < flips; ++i)
    bytes[below(bytes.size())] = static_cast<char>(below(256));
  if (mutant % 6 == 1) {
    const std::size_t length = below(bytes.size() / 2);
    const std::string piece = bytes.substr(below(bytes.size() - length), length);
    bytes.insert(below(bytes.size()), piece);
  }
  return bytes;
}

// Runs the plan on the undamaged model's inputs: 0, or 2 where they no longer fit.
int run_on(const fs::path& plan, const fs::path& folder, const Scratch& scratch) {
  SessionOptions session;
  session.plan_folder = plan;
  session.quiet = true;
  for (const auto& [name, tensor] : read_safetensors(folder / "reference.safetensors")) {
    if (!name.starts_with("input.")) continue;
    const fs::path file = scratch / (name + ".npy");
    write_npy(file, tensor);
    session.batches.inputs[name.substr(std::strlen("input."))] = file;
  }
  return run(session);
}

TEST(HostileModels, AreCompiledOrRefused) {
  const Scratch scratch;
  std::uint64_t model = 0;
  int refused = 0, compiled = 0, ran = 0, unfit = 0;
  for (const auto& entry : fs::directory_iterator(data("cases"))) {
    const std::string good = read_text(entry.path() / "model.onnx");
    ++model;
    for (std::uint64_t mutant = 0; mutant < mutants(); ++mutant) {
      CompileFlags flags;
      flags.model = scratch / "model.onnx";
      flags.grid = "data=1,z=1,y=2,x=2";
      flags.output = scratch / "plan";
      flags.quiet = true;
      flags.infer = true;
      write_text(flags.model, damaged(good, model, mutant));
      try {
        compile_model(flags);
      } catch (const CompileError&) {
        ++refused;
        EXPECT_FALSE(fs::exists(flags.output));
        continue;
      } catch (const std::exception& error) {
        ADD_FAILURE() << entry.path().filename() << " mutant " << mutant << ": " << error.what();
        continue;
      }
      ++compiled;
      const std::string what = str(entry.path().filename(), " mutant ", mutant);
      std::int64_t arena = 0;
      EXPECT_NO_THROW(arena = read_plan(flags.output).arena_bytes) << what;
      if (arena < kSmallArena) {
        const int code = run_on(flags.output, entry.path(), scratch);
        EXPECT_TRUE(code == 0 || code == 2) << what << ": exit code " << code;
        ++(code == 0 ? ran : unfit);
      }
      fs::remove_all(flags.output);
    }
  }
  std::cout << compiled + refused << " damaged models: " << compiled << " compiled, " << refused
            << " refused; " << ran << " plans ran, " << unfit << " no longer take the inputs\n";
  EXPECT_GT(refused, 0);
}

}  // namespace
}  // namespace tessera::test
