#include "passes/search/strategies.h"

#include <algorithm>
#include <charconv>

#include "ir/base/diag.h"
#include "ir/base/text.h"

namespace tessera {

const std::vector<Strategy>& strategies() {
  using enum Setting;
  static const std::vector<Strategy> table{
      {"auto",
       "everything below and between",
       {},
       [](int, int, int, int) { return true; },
       Free,
       Free,
       Free,
       Free},
      {"ddp", "copies of the model, gradients all-reduced over data", {0, 1, 1, 1}},
      {"zero1",
       "ddp with optimizer state over data",
       {0, 1, 1, 1},
       [](int, int, int, int) { return true; },
       Free,
       On},
      {"fsdp",
       "parameters over z, gathered for each pass (ZeRO-3)",
       {1, 0, 1, 1},
       [](int, int, int, int) { return true; },
       On},
      {"megatron", "layers over y, the batch over data", {0, 1, 0, 1}},
      {"megatron-sp",
       "megatron with tokens of the residual stream over y",
       {0, 1, 0, 1},
       [](int, int, int, int) { return true; },
       Free,
       Free,
       On},
      {"2d",
       "weights and activations over a square of devices (Optimus)",
       {0, 1, 0, 0},
       [](int, int, int y, int x) { return y == x && y > 1; },
       Free,
       Off,
       On,
       On},
      {"2.5d",
       "2d with the batch over z, no deeper than the square is wide (Tesseract)",
       {0, 0, 0, 0},
       [](int, int z, int y, int x) { return y == x && y > 1 && z > 1 && z <= y; },
       Free,
       Off,
       On,
       On},
      {"3d",
       "weights and activations over a cube of devices (Colossal-AI)",
       {0, 0, 0, 0},
       [](int, int z, int y, int x) { return y == x && z == y && y > 1; },
       Free,
       Off,
       On,
       On},
      {"atp",
       "layers over x and y, features of activations over both",
       {0, 1, 0, 0},
       [](int, int, int, int) { return true; },
       Free,
       Off,
       Off,
       On},
      {"axonn", "the 4D algorithm as published", {}}};
  return table;
}

const Strategy& strategy_named(const std::string& name) {
  const auto found = std::ranges::find(strategies(), name, &Strategy::name);
  if (found != strategies().end()) return *found;
  throw CompileError(
      "--strategy", str("there is no strategy ", in_quotes(name)),
      {str("strategies: ", join(strategies(), ", ", [](const Strategy& s) { return s.name; }))});
}

GridPattern parse_grid_pattern(const std::string& text) {
  GridPattern pattern{1, 1, 1, 1};
  for (const std::string& item : split(text, ',')) {
    const std::size_t equals = item.find('=');
    const std::string axis = item.substr(0, equals);
    int* size = axis == "data" ? &pattern.data
                : axis == "z"  ? &pattern.z
                : axis == "y"  ? &pattern.y
                : axis == "x"  ? &pattern.x
                               : nullptr;
    if (equals == std::string::npos || size == nullptr)
      throw CompileError("--grid", str("expected AXIS=SIZE or AXIS=*, found ", in_quotes(item)),
                         {"axes are data, z, y and x"});
    const std::string value = item.substr(equals + 1);
    int number = 0;
    const auto result = std::from_chars(value.data(), value.data() + value.size(), number);
    const bool whole = result.ec == std::errc() && result.ptr == value.data() + value.size();
    if (value != "*" && (!whole || number < 1 || number > (1 << 20)))
      throw CompileError("--grid", str("axis ", axis, " has size '", value, "'"));
    *size = value == "*" ? 0 : number;
  }
  return pattern;
}

}  // namespace tessera
