#include "passes/pass_manager.h"

#include <algorithm>
#include <chrono>

#include "ir/base/diag.h"
#include "ir/base/text.h"
#include "ir/dump.h"
#include "ir/verify.h"

namespace tessera {
namespace {

constexpr int kHighestDump = 99;

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

const std::vector<Pass>& all_passes() {
  static const std::vector<Pass> kPasses{
#define PASS(name, from, to, summary) {#name, Level::from, Level::to, summary, name},
#include "passes/passes.def"
#undef PASS
  };
  return kPasses;
}

const Pass* find_pass(std::string_view name) {
  const auto& passes = all_passes();
  const auto found =
      std::ranges::find_if(passes, [&](const Pass& pass) { return pass.name == name; });
  return found == passes.end() ? nullptr : &*found;
}

void PassManager::run(Module& module, std::span<const Pass* const> passes, PassContext& context) {
  for (const Pass* pass : passes) {
    if (module.level != pass->from) {
      throw CompileError(str("--", pass->name),
                         str("the pass takes a module of level ", name(pass->from),
                             ", this one is ", name(module.level)));
    }
    const auto start = std::chrono::steady_clock::now();
    const bool changed = pass->run(module, context);
    module.level = pass->to;
    runs_.push_back({std::string(pass->name), changed, seconds_since(start)});
    // A module that a pass says it has left alone was verified before; the last one is either way.
    const bool fresh = changed || pass->from != pass->to;
    if (options_.verify_each && (fresh || pass == passes.back()))
      verify_or_throw(module, str("after ", pass->name));
    if (fresh) dump(module, pass->name);
  }
}

void PassManager::dump(const Module& module, std::string_view name) {
  if (options_.dump_dir.empty()) return;
  TESSERA_CHECK(dumps_ <= kHighestDump, "more than 100 dumps");
  const std::string number = str(dumps_ < 10 ? "0" : "", dumps_);
  ++dumps_;
  write_module(module, options_.dump_dir / str(number, ".", name, ".tir"));
}

}  // namespace tessera
