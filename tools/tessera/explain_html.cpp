// `tessera explain --html`: one self-contained page (tools/tessera/explain.html, compiled in) with
// the plan's figures in it as JSON.
#include <algorithm>
#include <map>

#include "ir/base/check.h"
#include "ir/base/file.h"
#include "ir/base/text.h"
#include "tools/tessera/explain_page.h"
#include "tools/tessera/explain_parts.h"

namespace tessera {
namespace {

// [start, seconds, category (0 compute, 1 optimizer, 2 collective), axis, memory, name]
Json timeline(const Explained& e) {
  Json events = Json::array();
  for (const TimelineEvent& event : e.prediction.timeline) {
    const int category = event.category == "collective" ? 2 : event.category == "optimizer" ? 1 : 0;
    std::string axis;
    if (category == 2) {
      const PlanStep& step = e.plan.find(event.func)->steps[static_cast<std::size_t>(event.step)];
      const std::string& name = e.plan.grid.name(step.attrs.axes("over").back());
      axis = name.substr(0, name.find('.'));
    }
    events.push_back({event.start, event.seconds, category, axis, event.memory,
                      str("@", event.func, " ", event.name)});
  }
  return events;
}

Json dims_of(const Type& type, const Grid& grid) {
  Json dims = Json::array();
  for (std::size_t d = 0; d < type.rank(); ++d) {
    Json axes = Json::array();
    for (const AxisId axis : type.cuts[d]) axes.push_back({grid.name(axis), grid.size(axis)});
    dims.push_back({type.shape[d], axes});
  }
  return dims;
}

// The largest values, each layout once.
Json tensors(const Plan& plan) {
  constexpr std::size_t kShown = 40;
  struct Layout {
    const PlanValue* example = nullptr;
    double bytes = 0;
    int count = 0;
  };
  std::map<std::string, Layout> layouts;
  for (const PlanFunc& func : plan.funcs) {
    for (const PlanValue& value : func.values) {
      if (value.offset == kNoBuffer || value.type.rank() == 0) continue;
      Layout& layout = layouts[to_text(value.type, plan.grid)];
      if (layout.example == nullptr) layout.example = &value;
      layout.bytes = static_cast<double>(largest_local_bytes(value.type, plan.grid));
      ++layout.count;
    }
  }
  std::vector<Layout> largest;
  for (const auto& [text, layout] : layouts) largest.push_back(layout);
  std::ranges::stable_sort(largest, std::greater(), &Layout::bytes);
  largest.resize(std::min(largest.size(), kShown));
  Json rows = Json::array();
  for (const Layout& layout : largest)
    rows.push_back({{"name", str("%", layout.example->name)},
                    {"dims", dims_of(layout.example->type, plan.grid)},
                    {"partial", plan.grid.text(layout.example->type.partial.axes)},
                    {"bytes", layout.bytes},
                    {"count", layout.count}});
  return rows;
}

// Inside a script element "</" would end it.
std::string for_script(std::string text) {
  for (std::size_t at = 0; (at = text.find("</", at)) != std::string::npos; at += 3)
    text.replace(at, 2, "<\\/");
  return text;
}

}  // namespace

void write_html(const Explained& e, const std::filesystem::path& path) {
  constexpr std::string_view kPlace = "@TESSERA_DATA@";
  Json data = to_json(e);
  data["model"] = e.plan.model;
  data["device"] = e.machine.device.name;
  data["timeline"] = timeline(e);
  data["tensors"] = tensors(e.plan);
  Json axes = Json::array();
  for (const GridAxis& axis : e.plan.grid.axes()) axes.push_back({axis.name, axis.size});
  data["axes"] = axes;
  std::string page(explain_page());
  const std::size_t place = page.find(kPlace);
  TESSERA_CHECK(place != std::string::npos, "the page has no place for its data");
  page.replace(place, kPlace.size(), for_script(data.dump()));
  write_text(path, page);
}

}  // namespace tessera
