#include "ir/base/diag.h"

#include "ir/base/text.h"

namespace tessera {

std::string to_text(const Diagnostic& diagnostic) {
  std::string text = diagnostic.where.empty() ? "error: " : str(diagnostic.where, ": error: ");
  text += diagnostic.message;
  for (const std::string& note : diagnostic.notes) text += "\nnote: " + note;
  return text;
}

CompileError::CompileError(Diagnostic diagnostic)
    : std::runtime_error(to_text(diagnostic)), diagnostic_(std::move(diagnostic)) {}

CompileError::CompileError(std::string where, std::string message, std::vector<std::string> notes)
    : CompileError(Diagnostic{std::move(where), std::move(message), std::move(notes)}) {}

}  // namespace tessera
