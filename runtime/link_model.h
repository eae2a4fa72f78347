// `tessera-run --link`: how long transfers between local ranks take at least, so that overlap shows
// and predicted step times can be held against real ones on one machine.
#pragma once
#include <map>
#include <optional>
#include <string>

#include "ir/base/grid.h"
#include "runtime/comm.h"

namespace tessera {

struct LinkModel {
  std::optional<ModelledLink> all;              // of every axis
  std::map<std::string, ModelledLink> by_axis;  // instead of it

  bool empty() const { return !all && by_axis.empty(); }
  // Throws CompileError for an axis that the grid lacks.
  void check(const Grid& grid) const;
  // Of groups over these axes: the slowest of them.
  std::optional<ModelledLink> of(const Axes& over, const Grid& grid) const;
};

// "alpha=20us,beta=1GB/s", "z:alpha=20us,beta=1GB/s" for one axis. Adds to `model`. Throws
// CompileError naming the flag.
void parse_link(const std::string& text, LinkModel& model);

}  // namespace tessera
