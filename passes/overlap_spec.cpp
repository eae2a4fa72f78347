#include <algorithm>

#include "ir/base/diag.h"
#include "ir/base/text.h"
#include "passes/pass.h"

namespace tessera {

std::string_view name(OverlapKind kind) {
  switch (kind) {
    case OverlapKind::Reduce:
      return "oar";
    case OverlapKind::Scatter:
      return "ors";
    case OverlapKind::Gather:
      return "oag";
    case OverlapKind::Other:
      return "other";
  }
  return "";
}

Overlap all_overlap() {
  return {OverlapKind::Reduce, OverlapKind::Scatter, OverlapKind::Gather, OverlapKind::Other};
}

Overlap parse_overlap(std::string_view text) {
  const Overlap all = all_overlap();
  if (text == "all") return all;
  if (text == "none") return {};
  Overlap overlap;
  for (const std::string& word : split(std::string(text), ',')) {
    const auto kind = std::ranges::find_if(all, [&](OverlapKind k) { return name(k) == word; });
    if (kind == all.end())
      throw CompileError("--overlap", str("unknown kind ", in_quotes(word)),
                         {str("known: all, none, or a list of ",
                              join(all, ", ", [](OverlapKind k) { return name(k); }))});
    overlap.insert(*kind);
  }
  return overlap;
}

}  // namespace tessera
