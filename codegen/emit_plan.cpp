#include "codegen/emit_plan.h"

#include <algorithm>
#include <set>

#include "codegen/emit_func.h"
#include "ir/base/diag.h"
#include "ir/base/sha256.h"
#include "ir/base/text.h"
#include "runtime/check_plan.h"

namespace tessera {
namespace {

constexpr std::int64_t kAlignment = 64;

std::int64_t aligned(std::int64_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

// Arguments of one name are one buffer over all functions, except inputs, which each function has
// its own of.
std::map<std::string, std::int64_t> place_states(const Module& module, std::int64_t& end) {
  std::map<std::string, std::int64_t> offsets;
  for (const auto& func : module.funcs()) {
    for (const Arg& arg : func->args()) {
      if (arg.kind == ArgKind::Input || offsets.contains(arg.value->name)) continue;
      offsets[arg.value->name] = end;
      end += aligned(std::max<std::int64_t>(1, largest_local_bytes(arg.value->type, module.grid)));
    }
  }
  return offsets;
}

void hash_weights(Plan& plan, const EmitOptions& options) {
  std::map<std::string, std::string> known;
  for (auto& [arg, source] : plan.weights) {
    if (source.file == "weights.safetensors" &&
        !std::filesystem::exists(options.model_folder / source.file))
      continue;
    const std::filesystem::path file = options.model_folder / source.file;
    std::error_code error;
    const bool there = std::filesystem::exists(file, error);
    std::string& hash = known[str(source.file, "@", source.offset, "+", source.bytes)];
    if (hash.empty() && there) hash = sha256_of_file(file, source.offset, source.bytes);
    source.sha256 = hash;
    source.file = std::filesystem::relative(std::filesystem::absolute(file),
                                            std::filesystem::absolute(options.plan_folder))
                      .string();
  }
}

}  // namespace

Plan emit_plan(const Module& module, const EmitOptions& options) {
  Plan plan;
  plan.grid = module.grid;
  plan.isa = options.isa;
  plan.alignment = kAlignment;
  plan.micro_batches = module.micro_batches;
  plan.notes = module.notes;
  plan.model = plan.notes.contains("model") ? plan.notes.at("model") : "";
  plan.notes.erase("model");
  for (const auto& func : module.funcs()) {
    for (const Arg& arg : func->args()) {
      if (arg.kind == ArgKind::Param)
        plan.weights[arg.value->name] = module.weights.at(arg.value->name);
    }
    for (const auto& op : func->ops()) {
      if (op->kind == OpKind::Constant)
        plan.constants.insert(*module.constants.find(op->attrs.text("data")));
    }
  }
  const bool overlaps = std::ranges::any_of(module.funcs(), [](const auto& func) {
    return std::ranges::any_of(func->ops(),
                               [](const auto& op) { return op->attrs.flag(kStarted); });
  });
  std::int64_t persistent = 0;
  const std::map<std::string, std::int64_t> states = place_states(module, persistent);
  plan.arena_bytes = persistent;
  for (const auto& func : module.funcs()) {
    std::map<std::string, std::int64_t> args = states;
    std::int64_t base = persistent;
    for (const Arg& arg : func->args()) {
      if (arg.kind != ArgKind::Input) continue;
      args[arg.value->name] = base;
      base += aligned(std::max<std::int64_t>(1, largest_local_bytes(arg.value->type, module.grid)));
    }
    plan.arena_bytes = std::max(plan.arena_bytes, base);
    plan.funcs.push_back(FuncEmitter(module, *func, args, overlaps, plan.comms)
                             .run(base, kAlignment, plan.arena_bytes));
  }
  if (plan.arena_bytes > kMaxArenaBytes) {
    throw CompileError(plan.model,
                       str("a rank would need ", plan.arena_bytes, " bytes, more than ",
                           kMaxArenaBytes, ", the limit of a plan"),
                       {"a grid that cuts more, or smaller sizes with --bind"});
  }
  check_plan_or_throw(plan);
  hash_weights(plan, options);
  return plan;
}

}  // namespace tessera
