// Index maps: which loop of an op carries which dimension of its operands and results.
//
//   "mk,kn->mn"   one letter per loop; a loop missing from a result is reduced there
//
// A loop is free (may be cut), expandable (may be cut once the op is expanded into primitives) or
// whole.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "ir/base/shape.h"

namespace tessera {

struct IndexMap {
  std::vector<std::string> operands;  // one letter per dimension
  std::vector<std::string> results;
  std::string whole;       // loops that are never cut
  std::string expandable;  // loops that are cut only through the op's expansion

  std::string loops() const;  // every letter once, in order of first use
  bool is_whole(char loop) const { return whole.find(loop) != std::string::npos; }
  bool is_expandable(char loop) const { return expandable.find(loop) != std::string::npos; }
  std::string text() const;  // mk,kn->mn
  bool operator==(const IndexMap&) const = default;
};

// Parses "mk,kn->mn". Letters only, no "..."; throws CompileError (where = `where`) otherwise.
IndexMap parse_index_map(std::string_view text, const std::string& where);

// `count` loop letters that do not occur in `used`.
std::string fresh_loops(std::size_t count, std::string_view used);

}  // namespace tessera
