#include "ir/base/reshape_groups.h"

#include <algorithm>

namespace tessera {
namespace {

bool has_zero(const Shape& shape) { return std::ranges::find(shape, 0) != shape.end(); }

std::vector<ReshapeGroup> groups_of_empty(const Shape& from, const Shape& to) {
  std::vector<ReshapeGroup> groups;
  std::size_t i = 0;
  for (; i < std::min(from.size(), to.size()) && from[i] == to[i]; ++i)
    groups.push_back({i, i + 1, i, i + 1});
  if (i < from.size() || i < to.size()) groups.push_back({i, from.size(), i, to.size()});
  return groups;
}

}  // namespace

std::vector<ReshapeGroup> reshape_groups(const Shape& from, const Shape& to) {
  TESSERA_CHECK(elements(from) == elements(to), "reshape changes the count of elements");
  if (has_zero(from)) return groups_of_empty(from, to);
  std::vector<ReshapeGroup> groups;
  std::size_t i = 0;
  std::size_t j = 0;
  while (i < from.size() || j < to.size()) {
    ReshapeGroup group{i, i, j, j};
    const bool both = i < from.size() && j < to.size();
    if (both && from[i] == to[j]) {
      ++i, ++j;
    } else if (i < from.size() && from[i] == 1) {
      ++i;
    } else if (j < to.size() && to[j] == 1) {
      ++j;
    } else {
      std::int64_t left = from[i++];
      std::int64_t right = to[j++];
      while (left != right) {
        if (left < right) {
          left *= from[i++];
        } else {
          right *= to[j++];
        }
      }
    }
    group.from_end = i;
    group.to_end = j;
    groups.push_back(group);
  }
  return groups;
}

}  // namespace tessera
