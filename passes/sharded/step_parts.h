// Small questions about a step that several passes ask.
#pragma once
#include "ir/graph.h"

namespace tessera {

// Whether the op's result is made again wherever it is needed, instead of being moved: fill, iota,
// constants and broadcast scalars (that are not partial). False for null.
bool is_source(const Op* op);

// What an accumulator (an argument that stays partial over the micro-batches) is partial over; what
// is added to it is brought there. Nothing for other ops.
Partial accumulated_partial(const Op& op);

// The op that makes the loss: the last one of the forward pass. Null in functions without one.
const Op* last_forward_op(const Module& module, const Func& func);

}  // namespace tessera
