// `tessera verify`: the static checks of a plan.
#pragma once
#include <filesystem>

namespace tessera {

// Prints what was checked. Throws CompileError naming the plan and the first findings.
void verify_plan(const std::filesystem::path& folder);

}  // namespace tessera
