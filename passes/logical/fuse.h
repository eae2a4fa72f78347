// The parts of fuse_patterns: each replaces `op`'s result if the pattern ends in it, and says so.
// What becomes unused is left to remove_dead.
#pragma once
#include "passes/logical/attention_mask.h"

namespace tessera {

bool fuse_layer_norm(Module& module, Op& op);
bool fuse_rms_norm(Module& module, Op& op);
bool fuse_gelu(Module& module, Op& op);
bool fuse_silu(Module& module, Op& op);
bool fuse_cross_entropy(Module& module, Op& op);
bool fuse_attention(Module& module, Op& op, MaskCache& masks);

}  // namespace tessera
