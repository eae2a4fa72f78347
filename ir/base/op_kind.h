// Op kinds, their mnemonics, families and attribute specs, all read from ops.def.
#pragma once
#include <optional>
#include <span>
#include <string>
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

// Of a slice: which sub-batch it takes of an input (passes/sharded/split_micro_batch.cpp).
inline constexpr std::string_view kSubBatch = "sub_batch";

// Of a module's and a plan's notes: how many sub-batches input NAME holds, "sub_batches.NAME".
inline constexpr std::string_view kSubBatchesNote = "sub_batches.";

// Of a collective that communicates: it is begun only, and a later `wait` ends it. Until then its
// result is in flight. It is part of the op's word: `all_gather.start`.
inline constexpr std::string_view kStarted = "started";
inline constexpr std::string_view kStartSuffix = ".start";

// all_reduce, all_gather, reduce_scatter, all_to_all: ranks exchange bytes.
bool communicates(OpKind kind);

std::string op_word(OpKind kind, const AttrList& attrs);
struct NamedOp {
  OpKind kind = OpKind::Add;
  AttrList attrs;  // what the word says of them
};
std::optional<NamedOp> op_named(std::string_view word);

}  // namespace tessera
