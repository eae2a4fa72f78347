#include "passes/search/strategies.h"

#include <algorithm>
#include <charconv>

#include "ir/base/diag.h"
#include "ir/base/text.h"

namespace tessera {

const std::vector<Strategy>& strategies() {
  using enum Setting;
  static const std::vector<Strategy> table{
      {.name = "auto",
       .summary = "everything below and between",
       .zero1 = Free,
       .tokens = Free,
       .features = Free},
      {.name = "ddp",
       .summary = "copies of the model, gradients all-reduced over data",
       .pattern = {0, 1, 1, 1}},
      {.name = "zero1",
       .summary = "ddp with optimizer state over data",
       .pattern = {0, 1, 1, 1},
       .zero1 = On},
      {.name = "fsdp",
       .summary = "parameters over z, gathered for each pass (ZeRO-3)",
       .pattern = {1, 0, 1, 1},
       .regather = On},
      {.name = "megatron",
       .summary = "layers over y, the batch over data",
       .pattern = {0, 1, 0, 1}},
      {.name = "megatron-sp",
       .summary = "megatron with tokens of the residual stream over y",
       .pattern = {0, 1, 0, 1},
       .zero1 = Free,
       .tokens = On},
      {.name = "2d",
       .summary = "weights and activations over a square of devices (Optimus)",
       .pattern = {0, 1, 0, 0},
       .forms = [](int, int, int y, int x) { return y == x && y > 1; },
       .tokens = On,
       .features = On},
      {.name = "2.5d",
       .summary = "2d with the batch over z, no deeper than the square is wide (Tesseract)",
       .forms = [](int, int z, int y, int x) { return y == x && y > 1 && z > 1 && z <= y; },
       .tokens = On,
       .features = On},
      {.name = "3d",
       .summary = "weights and activations over a cube of devices (Colossal-AI)",
       .forms = [](int, int z, int y, int x) { return y == x && z == y && y > 1; },
       .tokens = On,
       .features = On},
      {.name = "atp",
       .summary = "layers over x and y, features of activations over both",
       .pattern = {0, 1, 0, 0},
       .features = On},
      {.name = "axonn", .summary = "the 4D algorithm as published"}};
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
