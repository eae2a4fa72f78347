// Op kinds, their mnemonics, families and attribute specs, all read from ops.def.
#pragma once
#include <optional>
#include <span>
#include <string_view>

#include "ir/base/attr.h"

namespace tessera {

enum class OpKind : std::uint8_t {
#define OP(Kind, mnemonic, family, attrs) Kind,
#include "ir/base/ops.def"
#undef OP
};

enum class OpFamily : std::uint8_t {
  Source,
  Elementwise,
  Contraction,
  Reduction,
  Normalization,
  Index,
  Movement,
  Collective,
  Optimizer
};

inline constexpr int kOpCount = 0
#define OP(Kind, mnemonic, family, attrs) +1
#include "ir/base/ops.def"
#undef OP
    ;

std::string_view mnemonic(OpKind kind);
OpFamily family(OpKind kind);
std::span<const AttrSpec> attr_specs(OpKind kind);

// Every op may carry it: it does again in the backward pass what the forward pass did.
inline constexpr std::string_view kRecomputed = "recomputed";
std::optional<OpKind> op_named(std::string_view mnemonic);

}  // namespace tessera
