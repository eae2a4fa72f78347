// The end of every tool: errors become messages and exit codes.
#pragma once
#include <CLI/CLI.hpp>
#include <filesystem>
#include <iostream>
#include <new>
#include <system_error>

#include "ir/base/diag.h"
#include "runtime/abort.h"

namespace tessera {

// Parses the command line; an exit code when the tool is to stop (0 after --help, 2 for mistakes).
template <class... Args>
std::optional<int> parse_command_line(CLI::App& app, Args&&... args) {
  try {
    app.parse(std::forward<Args>(args)...);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  return std::nullopt;
}

// 2 for the user's mistakes, files among them; 3 for what the machine lacks or loses; 4: our bug.
inline int exit_code(const std::exception& error) {
  if (dynamic_cast<const CompileError*>(&error) != nullptr) return 2;
  if (dynamic_cast<const std::filesystem::filesystem_error*>(&error) != nullptr) return 2;
  if (dynamic_cast<const WorldError*>(&error) != nullptr) return 3;
  if (dynamic_cast<const std::system_error*>(&error) != nullptr) return 3;
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) return 3;
  return 4;
}

inline std::string error_text(const std::exception& error) {
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) return "error: not enough memory";
  return error.what();
}

// Whatever `run` returns, or the error's exit code.
template <class Run>
int guarded(Run run) {
  try {
    return run();
  } catch (const std::exception& error) {
    std::cerr << error_text(error) << "\n";
    return exit_code(error);
  }
}

}  // namespace tessera
