// Diagnostics for the user's faults: `where: error: what, with the values` and one note saying why
// or what would do. Thrown as CompileError, caught once in each tool's main, which exits with 2.
#pragma once
#include <stdexcept>
#include <string>
#include <vector>

namespace tessera {

struct Diagnostic {
  std::string where;               // file:line:column, file: node 'name', a flag; may be empty
  std::string message;             // lower case, no full stop
  std::vector<std::string> notes;  // why, or a way out
};

// "where: error: message\nnote: ..." (no final newline).
std::string to_text(const Diagnostic& diagnostic);

class CompileError : public std::runtime_error {
 public:
  explicit CompileError(Diagnostic diagnostic);
  CompileError(std::string where, std::string message, std::vector<std::string> notes = {});
  const Diagnostic& diagnostic() const { return diagnostic_; }

 private:
  Diagnostic diagnostic_;
};

}  // namespace tessera
