// The same program on one device: every axis of the grid has size 1, so nothing is cut and
// collectives copy.
#pragma once
#include "runtime/plan.h"

namespace tessera {

// Buffers are laid out anew for the whole sizes: one for each distinct offset of the plan, so
// aliases stay aliases.
Plan on_one_device(const Plan& plan);

}  // namespace tessera
