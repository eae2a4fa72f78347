// Which ops of a function are repetitions of each other: a model's layers.
#pragma once
#include <unordered_map>

#include "ir/graph.h"

namespace tessera {

// A number for each op. Two ops share it if they look alike (kind, attributes, types, loops,
// stored arguments) and so do the ops around them, up to kReach uses away; so the first and the
// last layer's ends are told apart from the layers between them.
std::unordered_map<const Op*, int> repeated_ops(const Func& func, const Grid& grid);

}  // namespace tessera
