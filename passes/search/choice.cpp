#include "passes/search/choice.h"

#include "ir/base/text.h"

namespace tessera {

std::string settings_text(const Settings& settings, bool refined) {
  std::vector<std::string> parts;
  if (settings.micro_batches > 1) parts.push_back(str(settings.micro_batches, " micro-batches"));
  if (settings.recompute == Recompute::Selective) parts.emplace_back("recompute selective");
  if (settings.recompute == Recompute::Block) parts.emplace_back("recompute block");
  if (settings.regather) parts.emplace_back("regather");
  if (settings.zero1) parts.emplace_back("zero1");
  if (settings.scatter_tokens) parts.emplace_back("scatter tokens");
  if (settings.scatter_features) parts.emplace_back("scatter features");
  if (settings.sub_batches > 1) parts.push_back(str(settings.sub_batches, " sub-batches"));
  if (refined) parts.emplace_back("refined");
  return join(parts, ", ");
}

std::string to_text(const Choice& choice) {
  const std::string settings = settings_text(choice, false);
  return settings.empty() ? choice.grid.text() : str(choice.grid.text(), ", ", settings);
}

}  // namespace tessera
