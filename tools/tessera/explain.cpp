#include "tools/tessera/explain.h"

#include <algorithm>
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>

#include "codegen/predict_plan.h"
#include "ir/base/diag.h"
#include "ir/base/file.h"
#include "ir/base/text.h"

namespace tessera {
namespace {

using Json = nlohmann::ordered_json;

std::string with_unit(double value, std::initializer_list<std::pair<double, const char*>> units) {
  for (const auto& [size, unit] : units) {
    if (value < size && size > units.end()[-1].first) continue;
    char text[48];
    std::snprintf(text, sizeof text, "%.3g %s", value / size, unit);
    return text;
  }
  return "";
}

std::string seconds_text(double s) { return with_unit(s, {{1, "s"}, {1e-3, "ms"}, {1e-6, "us"}}); }
std::string bytes_text(double b) {
  return with_unit(b, {{1e12, "TB"}, {1e9, "GB"}, {1e6, "MB"}, {1e3, "kB"}, {1, "B"}});
}
std::string flops_text(double f) {
  return with_unit(f, {{1e15, "PFLOP/s"}, {1e12, "TFLOP/s"}, {1e9, "GFLOP/s"}, {1e6, "MFLOP/s"}});
}

void line(const std::string& what, const std::string& value, const std::string& more = "") {
  std::printf("  %-28s %12s   %s\n", what.c_str(), value.c_str(), more.c_str());
}

std::string percent(double part, double whole) {
  char text[24];
  std::snprintf(text, sizeof text, "%.1f%%", whole > 0 ? 100 * part / whole : 0.0);
  return text;
}

void print(const Plan& plan, const Machine& machine, const Prediction& p) {
  std::printf("grid %s (%d ranks) on %s: %s a step expected\n", plan.grid.text().c_str(),
              plan.grid.ranks(), machine.name.c_str(), seconds_text(p.seconds).c_str());
  std::printf("\ntime\n");
  line("compute", seconds_text(p.compute), percent(p.compute, p.seconds));
  line("optimizer", seconds_text(p.optimizer), percent(p.optimizer, p.seconds));
  line("exposed communication", seconds_text(p.exposed), percent(p.exposed, p.seconds));
  line("hidden communication", seconds_text(p.hidden()));
  if (!p.collectives.empty()) std::printf("\ncollectives of a step, on one rank\n");
  std::vector<std::pair<std::string, CollectiveTotal>> rows(p.collectives.begin(),
                                                            p.collectives.end());
  std::ranges::sort(rows, std::greater(), [](const auto& row) { return row.second.seconds; });
  for (const auto& [name, total] : rows)
    line(name, seconds_text(total.seconds),
         str(total.count, " x, ", bytes_text(total.bytes), " sent"));
  std::printf("\narithmetic\n");
  line("model", flops_text(p.model_flops / p.seconds),
       str(percent(p.share_of_peak(), 1), " of peak"));
  line("repeated on several ranks",
       percent(p.rank_flops * plan.grid.ranks() - p.model_flops - p.recomputed_flops,
               p.model_flops));
  line("made again (recompute)", percent(p.recomputed_flops, p.model_flops));
  std::printf("\nmemory of a rank\n");
  for (const auto& [name, bytes] : p.memory) line(name, bytes_text(bytes));
  line("total", bytes_text(p.memory_total),
       str(p.memory_total <= machine.device.memory_bytes ? "fits in " : "DOES NOT FIT in ",
           bytes_text(machine.device.memory_bytes)));
}

Json to_json(const Plan& plan, const Machine& machine, const Prediction& p) {
  Json collectives = Json::array();
  for (const auto& [name, total] : p.collectives)
    collectives.push_back({{"collective", name},
                           {"count", total.count},
                           {"seconds", total.seconds},
                           {"bytes_sent", total.bytes}});
  return {{"grid", plan.grid.text()},
          {"ranks", plan.grid.ranks()},
          {"machine", machine.name},
          {"seconds", p.seconds},
          {"compute_seconds", p.compute},
          {"optimizer_seconds", p.optimizer},
          {"communication_seconds", p.communication},
          {"exposed_communication_seconds", p.exposed},
          {"collectives", collectives},
          {"model_flops", p.model_flops},
          {"recomputed_flops", p.recomputed_flops},
          {"share_of_peak", p.share_of_peak()},
          {"memory_bytes", p.memory},
          {"memory_total_bytes", p.memory_total},
          {"device_memory_bytes", machine.device.memory_bytes},
          {"fits", p.memory_total <= machine.device.memory_bytes}};
}

// One row a stream, in the format of tessera-run --trace.
void write_timeline(const std::filesystem::path& path, const Prediction& p) {
  Json events = Json::array();
  std::map<std::string, int> rows;
  for (const TimelineEvent& event : p.timeline) {
    const std::string stream = event.stream.empty() ? "compute" : event.stream;
    const auto [row, fresh] = rows.emplace(stream, static_cast<int>(rows.size()));
    if (fresh)
      events.push_back({{"name", "thread_name"},
                        {"ph", "M"},
                        {"pid", 0},
                        {"tid", row->second},
                        {"args", {{"name", stream}}}});
    events.push_back({{"name", event.name},
                      {"cat", event.category},
                      {"ph", "X"},
                      {"pid", 0},
                      {"tid", row->second},
                      {"ts", event.start * 1e6},
                      {"dur", event.seconds * 1e6}});
  }
  write_text(path, Json{{"traceEvents", events}}.dump() + "\n");
}

}  // namespace

void explain(const ExplainFlags& flags) {
  const Plan plan = read_plan(flags.plan);
  const std::string noted =
      plan.notes.contains("machine") ? plan.notes.at("machine") : std::string("localhost");
  const Machine machine = load_machine(flags.machine.empty() ? noted : flags.machine);
  const Prediction p = predict(plan, machine);
  if (!flags.trace.empty()) write_timeline(flags.trace, p);
  if (flags.json) {
    std::cout << to_json(plan, machine, p).dump(2) << "\n";
  } else {
    print(plan, machine, p);
  }
}

}  // namespace tessera
