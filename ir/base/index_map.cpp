#include "ir/base/index_map.h"

#include <cctype>

#include "ir/base/diag.h"
#include "ir/base/text.h"

namespace tessera {
std::string IndexMap::loops() const {
  std::string seen;
  for (const auto* side : {&operands, &results}) {
    for (const std::string& term : *side) {
      for (char loop : term) {
        if (seen.find(loop) == std::string::npos) seen += loop;
      }
    }
  }
  return seen;
}

std::string IndexMap::text() const { return str(join(operands, ","), "->", join(results, ",")); }

IndexMap parse_index_map(std::string_view text, const std::string& where) {
  const std::size_t arrow = text.find("->");
  if (arrow == std::string_view::npos) {
    throw CompileError(where, str("index map \"", text, "\" has no ->"));
  }
  IndexMap map{split(text.substr(0, arrow), ','), split(text.substr(arrow + 2), ','), "", ""};
  for (const auto* side : {&map.operands, &map.results}) {
    for (const std::string& term : *side) {
      for (char loop : term) {
        if (!std::isalpha(static_cast<unsigned char>(loop))) {
          throw CompileError(where,
                             str("index map \"", text, "\": '", loop, "' is not a loop letter"));
        }
      }
    }
  }
  return map;
}

std::string fresh_loops(std::size_t count, std::string_view used) {
  std::string fresh;
  for (const char first : {'a', 'A'}) {
    for (char loop = first; loop < first + 26 && fresh.size() < count; ++loop) {
      if (used.find(loop) == std::string_view::npos) fresh += loop;
    }
  }
  TESSERA_CHECK(fresh.size() == count, "an op has more than 52 loops");
  return fresh;
}

}  // namespace tessera
