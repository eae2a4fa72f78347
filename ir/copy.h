// A deep copy of a module: for trying passes without committing to them.
#pragma once
#include "ir/graph.h"

namespace tessera {

Module copy_of(const Module& module);

}  // namespace tessera
