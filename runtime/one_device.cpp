#include "runtime/one_device.h"

#include <algorithm>
#include <map>

#include "ir/base/sha256.h"

namespace tessera {

Plan on_one_device(const Plan& plan) {
  Plan one = plan;
  std::vector<GridAxis> axes = plan.grid.axes();
  for (GridAxis& axis : axes) axis.size = 1;
  one.grid = Grid(std::move(axes));
  std::map<std::int64_t, std::int64_t> bytes;  // by old offset
  for (const PlanFunc& func : plan.funcs) {
    for (const PlanValue& value : func.values) {
      if (value.offset == kNoBuffer) continue;
      std::int64_t& largest = bytes[value.offset];
      largest = std::max<std::int64_t>({largest, 1, largest_local_bytes(value.type, one.grid)});
    }
  }
  std::map<std::int64_t, std::int64_t> places;
  std::int64_t end = 0;
  for (const auto& [offset, size] : bytes) {
    places[offset] = end;
    end += (size + plan.alignment - 1) / plan.alignment * plan.alignment;
  }
  for (PlanFunc& func : one.funcs) {
    for (PlanValue& value : func.values) {
      if (value.offset != kNoBuffer) value.offset = places.at(value.offset);
    }
  }
  one.arena_bytes = end;
  one.hash = sha256(to_text(one));
  return one;
}

}  // namespace tessera
