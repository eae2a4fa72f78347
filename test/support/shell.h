// Runs the programs themselves, as a user would.
#pragma once
#include <sys/wait.h>

#include <cstdio>
#include <string>

namespace tessera::test {

struct Finished {
  int code;
  std::string output;
};

inline Finished shell(const std::string& command) {
  Finished result{0, ""};
  FILE* pipe = ::popen((command + " 2>&1").c_str(), "r");
  char buffer[4096];
  for (std::size_t got; (got = std::fread(buffer, 1, sizeof buffer, pipe)) > 0;)
    result.output.append(buffer, got);
  const int status = ::pclose(pipe);
  result.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return result;
}

inline std::string tool(const std::string& name) { return std::string(TESSERA_BIN) + "/" + name; }

}  // namespace tessera::test
