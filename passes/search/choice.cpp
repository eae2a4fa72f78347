#include "passes/search/choice.h"

#include "ir/base/text.h"

namespace tessera {

void Choice::apply(PassOptions& options) const {
  options.micro_batches = micro_batches;
  options.recompute = recompute;
  options.regather = regather;
  options.zero1 = zero1;
  options.scatter_tokens = scatter_tokens;
  options.scatter_features = scatter_features;
}

Choice settings_of(const PassOptions& options) {
  Choice choice;
  choice.micro_batches = options.micro_batches;
  choice.recompute = options.recompute;
  choice.regather = options.regather;
  choice.zero1 = options.zero1;
  choice.scatter_tokens = options.scatter_tokens;
  choice.scatter_features = options.scatter_features;
  return choice;
}

std::string options_text(const Choice& choice) {
  std::vector<std::string> parts;
  if (choice.micro_batches > 1) parts.push_back(str(choice.micro_batches, " micro-batches"));
  if (choice.recompute == Recompute::Selective) parts.emplace_back("recompute selective");
  if (choice.recompute == Recompute::Block) parts.emplace_back("recompute block");
  if (choice.regather) parts.emplace_back("regather");
  if (choice.zero1) parts.emplace_back("zero1");
  if (choice.scatter_tokens) parts.emplace_back("scatter tokens");
  if (choice.scatter_features) parts.emplace_back("scatter features");
  return join(parts, ", ");
}

std::string to_text(const Choice& choice) {
  const std::string options = options_text(choice);
  return options.empty() ? choice.grid.text() : str(choice.grid.text(), ", ", options);
}

}  // namespace tessera
