#include "runtime/link_model.h"

#include <algorithm>
#include <charconv>

#include "ir/base/diag.h"
#include "ir/base/text.h"

namespace tessera {
namespace {

constexpr const char* kFlag = "--link";

// A number with one of the units.
double measured(const std::string& text, const std::map<std::string, double>& units) {
  double value = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  const auto unit = units.find(std::string(result.ptr, text.data() + text.size()));
  if (result.ec != std::errc() || unit == units.end() || !(value >= 0 && value < 1e15)) {
    throw CompileError(kFlag, str(in_quotes(text), " is no number with a unit"),
                       {str("units: ", join(units, ", ", [](const auto& u) { return u.first; }))});
  }
  return value * unit->second;
}

}  // namespace

void LinkModel::check(const Grid& grid) const {
  for (const auto& [axis, link] : by_axis) {
    if (grid.find(axis) >= 0) continue;
    throw CompileError(kFlag,
                       str("the plan's grid ", grid.text(), " has no axis ", in_quotes(axis)));
  }
}

std::optional<ModelledLink> LinkModel::of(const Axes& over, const Grid& grid) const {
  std::optional<ModelledLink> slowest;
  for (const AxisId axis : over) {
    if (grid.size(axis) == 1) continue;
    const auto own = by_axis.find(grid.name(axis));
    const std::optional<ModelledLink> link = own == by_axis.end() ? all : own->second;
    if (!link) continue;
    if (!slowest) slowest = link;
    slowest->alpha = std::max(slowest->alpha, link->alpha);
    slowest->beta = std::min(slowest->beta, link->beta);
  }
  return slowest;
}

void parse_link(const std::string& text, LinkModel& model) {
  static const std::map<std::string, double> kTimes{
      {"ns", 1e-9}, {"us", 1e-6}, {"ms", 1e-3}, {"s", 1}};
  static const std::map<std::string, double> kRates{
      {"B/s", 1}, {"KB/s", 1e3}, {"MB/s", 1e6}, {"GB/s", 1e9}};
  const std::size_t colon = text.find(':');
  ModelledLink link{0, 0};
  for (const std::string& item :
       split(colon == std::string::npos ? text : text.substr(colon + 1), ',')) {
    const std::size_t equals = item.find('=');
    const std::string key = item.substr(0, equals);
    const std::string value = equals == std::string::npos ? "" : item.substr(equals + 1);
    if (key == "alpha") {
      link.alpha = measured(value, kTimes);
    } else if (key == "beta") {
      link.beta = measured(value, kRates);
    } else {
      throw CompileError(
          kFlag, str("unknown setting ", in_quotes(item)),
          {"write --link alpha=20us,beta=1GB/s, or --link z:alpha=... for one axis"});
    }
  }
  if (!(link.beta > 0))
    throw CompileError(kFlag, "beta, the bandwidth, must be given and above zero",
                       {"write --link alpha=20us,beta=1GB/s"});
  if (colon == std::string::npos) {
    model.all = link;
  } else {
    model.by_axis[text.substr(0, colon)] = link;
  }
}

}  // namespace tessera
