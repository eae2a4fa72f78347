#include "ir/base/op_kind.h"

#include <array>
#include <map>

#include "ir/base/check.h"
#include "ir/base/text.h"

namespace tessera {
namespace {

struct KindRow {
  std::string_view mnemonic;
  OpFamily family;
  std::string_view attrs;
};

constexpr std::array<KindRow, kOpCount> kRows{{
#define OP(Kind, mnemonic, family, attrs) {#mnemonic, OpFamily::family, attrs},
#include "ir/base/ops.def"
#undef OP
}};

AttrKind attr_kind_named(std::string_view word) {
  constexpr std::array<std::string_view, 7> kWords{"int",  "float", "bool", "text",
                                                   "ints", "axes",  "dtype"};
  for (std::size_t i = 0; i < kWords.size(); ++i) {
    if (kWords[i] == word) return static_cast<AttrKind>(i);
  }
  internal_error("ops.def", 0, str("unknown attribute kind ", word));
}

std::vector<AttrSpec> parse_specs(std::string_view text) {
  std::vector<AttrSpec> specs;
  while (!text.empty()) {
    const std::size_t space = text.find(' ');
    std::string_view item = text.substr(0, space);
    text = space == std::string_view::npos ? std::string_view{} : text.substr(space + 1);
    AttrSpec spec;
    for (; item.back() == '?' || item.back() == '!'; item.remove_suffix(1)) {
      (item.back() == '?' ? spec.optional : spec.bare) = true;
    }
    const std::size_t colon = item.find(':');
    spec.name = item.substr(0, colon);
    spec.kind = attr_kind_named(item.substr(colon + 1));
    specs.push_back(spec);
  }
  return specs;
}

const std::array<std::vector<AttrSpec>, kOpCount>& all_specs() {
  static const auto kSpecs = [] {
    std::array<std::vector<AttrSpec>, kOpCount> specs;
    for (std::size_t i = 0; i < specs.size(); ++i) {
      specs[i] = parse_specs(kRows[i].attrs);
      specs[i].push_back({kRecomputed, AttrKind::Bool, true});
    }
    return specs;
  }();
  return kSpecs;
}

}  // namespace

std::string_view mnemonic(OpKind kind) { return kRows[static_cast<std::size_t>(kind)].mnemonic; }
OpFamily family(OpKind kind) { return kRows[static_cast<std::size_t>(kind)].family; }
std::span<const AttrSpec> attr_specs(OpKind kind) {
  return all_specs()[static_cast<std::size_t>(kind)];
}

bool communicates(OpKind kind) {
  return kind == OpKind::AllReduce || kind == OpKind::AllGather || kind == OpKind::ReduceScatter ||
         kind == OpKind::AllToAll;
}

std::string op_word(OpKind kind, const AttrList& attrs) {
  return str(mnemonic(kind), attrs.flag(kStarted) ? kStartSuffix : "");
}

std::optional<NamedOp> op_named(std::string_view word) {
  static const auto kByName = [] {
    std::map<std::string_view, OpKind> names;
    for (std::size_t i = 0; i < kRows.size(); ++i)
      names[kRows[i].mnemonic] = static_cast<OpKind>(i);
    return names;
  }();
  const bool started = word.ends_with(kStartSuffix);
  if (started) word.remove_suffix(kStartSuffix.size());
  const auto found = kByName.find(word);
  if (found == kByName.end() || (started && !communicates(found->second))) return std::nullopt;
  NamedOp named{found->second, {}};
  if (started) named.attrs.set(kStarted, true);
  return named;
}

}  // namespace tessera
