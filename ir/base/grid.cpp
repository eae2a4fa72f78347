#include "ir/base/grid.h"

#include <algorithm>
#include <charconv>

#include "ir/base/check.h"
#include "ir/base/diag.h"
#include "ir/base/text.h"

namespace tessera {
namespace {

constexpr int kMaxRanks = 1 << 20;

bool is_axis_name(std::string_view name) {
  if (name.empty() || !std::isalpha(static_cast<unsigned char>(name[0]))) return false;
  return std::ranges::all_of(name, [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.';
  });
}

GridAxis parse_axis(std::string_view item, const std::string& where) {
  const std::size_t equals = item.find('=');
  const std::string_view name = item.substr(0, equals);
  if (equals == std::string_view::npos || !is_axis_name(name)) {
    throw CompileError(where, str("grid: expected name=size, found '", item, "'"),
                       {"write for example data=2,z=1,y=2,x=2"});
  }
  const std::string_view digits = item.substr(equals + 1);
  int size = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), size);
  if (error != std::errc() || end != digits.data() + digits.size() || size < 1) {
    throw CompileError(where, str("grid: axis ", name, " has size '", digits,
                                  "', which is not a whole number >= 1"));
  }
  return {std::string(name), size};
}

}  // namespace

Grid Grid::parse(std::string_view text, const std::string& where) {
  std::vector<GridAxis> axes;
  std::int64_t ranks = 1;
  while (!text.empty()) {
    const std::size_t comma = text.find(',');
    std::string_view item = text.substr(0, comma);
    while (!item.empty() && item.front() == ' ') item.remove_prefix(1);
    GridAxis axis = parse_axis(item, where);
    const bool twice =
        std::ranges::any_of(axes, [&](const GridAxis& a) { return a.name == axis.name; });
    if (twice) throw CompileError(where, str("grid: axis ", axis.name, " is named twice"));
    ranks *= axis.size;
    if (ranks > kMaxRanks) throw CompileError(where, str("grid: more than ", kMaxRanks, " ranks"));
    axes.push_back(std::move(axis));
    if (comma == std::string_view::npos) break;
    text.remove_prefix(comma + 1);
  }
  return Grid(std::move(axes));
}

AxisId Grid::find(std::string_view name) const {
  for (std::size_t i = 0; i < axes_.size(); ++i) {
    if (axes_[i].name == name) return static_cast<AxisId>(i);
  }
  return -1;
}

int Grid::ranks() const {
  int count = 1;
  for (const GridAxis& axis : axes_) count *= axis.size;
  return count;
}

int Grid::size(const Axes& axes) const {
  int count = 1;
  for (AxisId axis : axes) count *= size(axis);
  return count;
}

Coordinates Grid::coordinates(int rank) const {
  Coordinates result(axes_.size());
  for (std::size_t i = axes_.size(); i-- > 0;) {
    result[i] = rank % axes_[i].size;
    rank /= axes_[i].size;
  }
  return result;
}

int Grid::rank(const Coordinates& coordinates) const {
  int rank = 0;
  for (std::size_t i = 0; i < axes_.size(); ++i) rank = rank * axes_[i].size + coordinates[i];
  return rank;
}

std::vector<int> Grid::group(int rank, const Axes& axes) const {
  Coordinates at = coordinates(rank);
  std::vector<int> members;
  const int count = size(axes);
  for (int member = 0; member < count; ++member) {
    int rest = member;
    for (std::size_t i = axes.size(); i-- > 0;) {
      at[static_cast<std::size_t>(axes[i])] = rest % size(axes[i]);
      rest /= size(axes[i]);
    }
    members.push_back(this->rank(at));
  }
  return members;
}

int Grid::group_index(int rank, const Axes& axes) const {
  const Coordinates at = coordinates(rank);
  int index = 0;
  for (AxisId axis : axes) index = index * size(axis) + at[static_cast<std::size_t>(axis)];
  return index;
}

std::string Grid::text() const {
  return join(axes_, ",", [](const GridAxis& axis) { return str(axis.name, "=", axis.size); });
}

std::string Grid::text(const Axes& axes) const {
  return join(axes, ",", [this](AxisId axis) { return name(axis); });
}

}  // namespace tessera
