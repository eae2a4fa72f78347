// Attributes of ops: a closed variant with one text form, so that the IR and plans print and parse
// them generically.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "ir/base/dtype.h"
#include "ir/base/grid.h"

namespace tessera {

using Ints = std::vector<std::int64_t>;

// Axes are wrapped, so that they differ from Ints in the variant.
struct AxesAttr {
  Axes axes;
  bool operator==(const AxesAttr&) const = default;
};

using Attr = std::variant<std::int64_t, double, bool, std::string, Ints, AxesAttr, DType>;
enum class AttrKind : std::uint8_t { Int, Float, Bool, Text, IntList, AxisList, Dtype };

inline AttrKind kind(const Attr& attr) { return static_cast<AttrKind>(attr.index()); }

// What an op may carry: `word value`, or only `value` when bare.
struct AttrSpec {
  std::string_view name;
  AttrKind kind = AttrKind::Int;
  bool optional = false;
  bool bare = false;
};

// The attributes of one op, in the order of its specs.
class AttrList {
 public:
  AttrList() = default;
  AttrList(std::initializer_list<std::pair<std::string, Attr>> items) : items_(items) {}

  const Attr* find(std::string_view name) const;
  bool has(std::string_view name) const { return find(name) != nullptr; }
  void set(std::string_view name, Attr value);
  void erase(std::string_view name);

  // Typed access; a missing or differently typed attribute is our bug (parsers check specs first).
  std::int64_t integer(std::string_view name) const;
  double number(std::string_view name) const;
  bool flag(std::string_view name) const;  // false when absent
  const std::string& text(std::string_view name) const;
  const Ints& ints(std::string_view name) const;
  const Axes& axes(std::string_view name) const;
  DType dtype(std::string_view name) const;

  const std::vector<std::pair<std::string, Attr>>& items() const { return items_; }
  bool operator==(const AttrList&) const = default;

 private:
  std::vector<std::pair<std::string, Attr>> items_;
};

// 3, 0.5, true, "text", (1,2), data,z, f32. Doubles print shortest and always with '.', 'e', inf or
// nan.
std::string to_text(const Attr& attr, const Grid& grid);
std::string number_text(double value);

}  // namespace tessera
