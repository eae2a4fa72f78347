// What the forms of `tessera explain` share: units, the plan's prediction, and the table that the
// search left beside the plan.
#pragma once
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "codegen/predict_plan.h"
#include "tools/tessera/units.h"

namespace tessera {

using Json = nlohmann::ordered_json;

std::string percent(double part, double whole);
void line(const std::string& what, const std::string& value, const std::string& more = "");

struct Explained {
  std::filesystem::path folder;
  Plan plan;
  Machine machine;
  Prediction prediction;
  // search.json, if the plan was chosen for this machine; a table for another one is not shown as
  // if it were for this.
  std::optional<Json> search;

  std::string heading() const;  // grid and settings
};

// `machine`: a preset or a file; empty: the one that the plan was chosen for.
Explained load_explained(const std::filesystem::path& folder, const std::string& machine);

Json to_json(const Explained& e);
void print_why(const Explained& e, const std::string& name);
void print_diff(const Explained& a, const Explained& b);
void write_html(const Explained& e, const std::filesystem::path& path);

}  // namespace tessera
