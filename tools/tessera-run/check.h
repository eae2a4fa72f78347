// --check: the plan's first step against the same program on one device.
#pragma once
#include "runtime/session.h"

namespace tessera {

// Prints the comparison. Returns 0 when loss, gradient norm and every gradient agree within 1e-4,
// else 4.
int check_plan(const Plan& plan, const SessionOptions& options, Timeout timeout);

}  // namespace tessera
