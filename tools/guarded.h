// The end of every tool: errors become messages and exit codes.
#pragma once
#include <CLI/CLI.hpp>
#include <iostream>

#include "ir/base/diag.h"

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

// 0 and whatever `run` returns; 2 for the user's mistakes; `other` says what else it knows, else 4:
// our bug.
template <class Run, class Other>
int guarded(Run run, Other other) {
  try {
    return run();
  } catch (const CompileError& error) {
    std::cerr << error.what() << "\n";
    return 2;
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return other(error);
  }
}

template <class Run>
int guarded(Run run) {
  return guarded(run, [](const std::exception&) { return 4; });
}

}  // namespace tessera
