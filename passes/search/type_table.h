// Types by number, and what it costs to go from one to another, asked for over and over again.
// Internal to passes/search.
#pragma once
#include <string>
#include <unordered_map>
#include <vector>

#include "ir/base/text.h"
#include "passes/cost/collective_cost.h"
#include "passes/sharded/reshard_path.h"

namespace tessera {

class TypeTable {
 public:
  TypeTable(const Machine& machine, const Grid& grid) : machine_(machine), grid_(grid) {}

  int id(const Type& type) {
    const auto [found, fresh] =
        ids_.try_emplace(to_text(type, grid_), static_cast<int>(types_.size()));
    if (fresh) types_.push_back(type);
    return found->second;
  }
  const Type& type(int id) const { return types_[static_cast<std::size_t>(id)]; }
  double bytes(int id) const { return static_cast<double>(largest_local_bytes(type(id), grid_)); }

  double reshard_seconds(int from, int to) {
    if (from == to) return 0;
    const std::uint64_t key = static_cast<std::uint64_t>(from) << 32 | static_cast<unsigned>(to);
    const auto [found, fresh] = costs_.try_emplace(key, 0.0);
    if (fresh) {
      each_collective(
          type(from), type(to), grid_, [&](OpKind kind, const Axes& over, double bytes) {
            found->second += collective_cost(machine_, grid_, kind, over, bytes).seconds;
          });
    }
    return found->second;
  }

 private:
  const Machine& machine_;
  const Grid& grid_;
  std::unordered_map<std::string, int> ids_;
  std::vector<Type> types_;
  std::unordered_map<std::uint64_t, double> costs_;
};

}  // namespace tessera
