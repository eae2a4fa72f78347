// The device grid: any number of named axes, outermost first. Ranks are numbered row-major, so
// neighbours along the last axis are neighbours on a node. Nothing here knows that the paper's grid
// has four axes.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tessera {

using AxisId = int;                    // index into Grid::axes
using Axes = std::vector<AxisId>;      // an ordered list of axes, major to minor
using Coordinates = std::vector<int>;  // one per axis of the grid

struct GridAxis {
  std::string name;
  int size = 1;
  bool operator==(const GridAxis&) const = default;
};

class Grid {
 public:
  Grid() = default;
  explicit Grid(std::vector<GridAxis> axes) : axes_(std::move(axes)) {}

  // "data=2,z=1,y=2,x=2" -> grid. Throws CompileError (where = `where`) for a bad name, size or
  // duplicate.
  static Grid parse(std::string_view text, const std::string& where);

  const std::vector<GridAxis>& axes() const { return axes_; }
  int axis_count() const { return static_cast<int>(axes_.size()); }
  int size(AxisId axis) const { return axes_[static_cast<std::size_t>(axis)].size; }
  const std::string& name(AxisId axis) const { return axes_[static_cast<std::size_t>(axis)].name; }
  AxisId find(std::string_view name) const;  // -1 if absent

  int ranks() const;                 // product of all sizes
  int size(const Axes& axes) const;  // product of these sizes; 1 for none
  Coordinates coordinates(int rank) const;
  int rank(const Coordinates& coordinates) const;

  // The ranks that differ from `rank` only along `axes`, ordered with axes[0] slowest. Position of
  // `rank` itself among them is group_index. This order is the order of every reduction, so it is
  // part of a plan's meaning.
  std::vector<int> group(int rank, const Axes& axes) const;
  int group_index(int rank, const Axes& axes) const;

  std::string text() const;                  // data=2,z=1,y=2,x=2
  std::string text(const Axes& axes) const;  // data,z

  bool operator==(const Grid&) const = default;

 private:
  std::vector<GridAxis> axes_;
};

}  // namespace tessera
