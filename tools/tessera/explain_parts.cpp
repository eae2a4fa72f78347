#include "tools/tessera/explain_parts.h"

#include <cstdio>
#include <fstream>

#include "ir/base/diag.h"
#include "ir/base/file.h"
#include "ir/base/sha256.h"
#include "ir/base/text.h"

namespace tessera {
namespace {

std::optional<Json> read_search(const std::filesystem::path& folder, const Machine& machine) {
  const std::filesystem::path path = folder / "search.json";
  if (!std::filesystem::exists(path)) return std::nullopt;
  Json search = Json::parse(read_text(path), nullptr, false);
  const auto is = [&](const char* key, auto check) {
    return search.is_object() && search.contains(key) && check(search.at(key));
  };
  const auto list = [](const Json& value) {
    if (!value.is_array()) return false;
    for (const Json& row : value) {
      for (const char* key :
           {"seconds", "compute_seconds", "communication_seconds", "memory_bytes"})
        if (!row.is_object() || !row.contains(key) || !row.at(key).is_number()) return false;
      for (const char* key : {"name", "grid", "options"})
        if (!row.contains(key) || !row.at(key).is_string()) return false;
      if (!row.contains("fits") || !row.at("fits").is_boolean()) return false;
    }
    return true;
  };
  const auto text = [](const Json& value) { return value.is_string(); };
  if (!is("grids", list) || !is("strategies", list) || !is("machine_sha256", text) ||
      !is("plan_sha256", text) ||
      !is("lower_bound_seconds", [](const Json& v) { return v.is_number(); }))
    throw CompileError(path.string(), "is not what `tessera compile` leaves beside a plan",
                       {"compile the plan again, or remove the file"});
  // Figures of another machine, or of another plan, are not shown as this one's.
  const bool current = search.at("machine_sha256") == machine.fingerprint &&
                       search.at("plan_sha256") == sha256(read_text(folder / "plan.txt"));
  return current ? std::optional(search) : std::nullopt;
}

}  // namespace

std::string percent(double part, double whole) {
  char text[24];
  std::snprintf(text, sizeof text, "%.1f%%", whole > 0 ? 100 * part / whole : 0.0);
  return text;
}

void line(const std::string& what, const std::string& value, const std::string& more) {
  std::printf("  %-28s %12s   %s\n", what.c_str(), value.c_str(), more.c_str());
}

std::string Explained::heading() const {
  const auto settings = plan.notes.find("settings");
  return settings == plan.notes.end() ? str("grid ", plan.grid.text())
                                      : str("grid ", plan.grid.text(), ", ", settings->second);
}

Explained load_explained(const std::filesystem::path& folder, const std::string& machine) {
  Explained e;
  e.folder = folder;
  e.plan = read_plan(folder);
  const auto noted = e.plan.notes.find("machine");
  e.machine = load_machine(!machine.empty()              ? machine
                           : noted != e.plan.notes.end() ? noted->second
                                                         : std::string("localhost"));
  e.prediction = predict(e.plan, e.machine);
  e.search = read_search(folder, e.machine);
  return e;
}

Json to_json(const Explained& e) {
  const Prediction& p = e.prediction;
  Json collectives = Json::array();
  for (const auto& [name, total] : p.collectives)
    collectives.push_back({{"collective", name},
                           {"count", total.count},
                           {"seconds", total.seconds},
                           {"exposed_seconds", total.exposed},
                           {"bytes_sent", total.bytes}});
  Json json{{"grid", e.plan.grid.text()},
            {"ranks", e.plan.grid.ranks()},
            {"settings", e.plan.notes.contains("settings") ? e.plan.notes.at("settings") : ""},
            {"machine", e.machine.name},
            {"seconds", p.seconds},
            {"compute_seconds", p.compute},
            {"optimizer_seconds", p.optimizer},
            {"communication_seconds", p.communication},
            {"exposed_communication_seconds", p.exposed},
            {"blocking_seconds", p.blocking_seconds()},
            {"collectives", collectives},
            {"model_flops", p.model_flops},
            {"recomputed_flops", p.recomputed_flops},
            {"share_of_peak", p.share_of_peak()},
            {"memory_bytes", p.memory},
            {"memory_total_bytes", p.memory_total},
            {"device_memory_bytes", e.machine.device.memory_bytes},
            {"fits", p.memory_total <= e.machine.device.memory_bytes}};
  if (e.search) json["search"] = *e.search;
  return json;
}

}  // namespace tessera
