#include "ir/base/diag.h"
#include "ir/base/text.h"
#include "passes/pass.h"

namespace tessera {

Overlap parse_overlap(std::string_view text) {
  if (text == "all") return {};
  Overlap overlap{false, false, false, false};
  if (text == "none") return overlap;
  for (const std::string& word : split(std::string(text), ',')) {
    bool* kind = word == "oar"     ? &overlap.reduce
                 : word == "ors"   ? &overlap.scatter
                 : word == "oag"   ? &overlap.gather
                 : word == "other" ? &overlap.other
                                   : nullptr;
    if (kind == nullptr)
      throw CompileError("--overlap", str("unknown kind ", in_quotes(word)),
                         {"known: all, none, or a list of oar, ors, oag, other"});
    *kind = true;
  }
  return overlap;
}

}  // namespace tessera
