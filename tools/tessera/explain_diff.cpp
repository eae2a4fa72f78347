// `tessera explain A.plan --diff B.plan`: what differs, and what each difference is worth.
#include <algorithm>
#include <cstdio>
#include <set>

#include "ir/base/text.h"
#include "tools/tessera/explain_parts.h"

namespace tessera {
namespace {

struct Row {
  std::string name;
  double a = 0, b = 0;
  double difference() const { return b - a; }
};

void print_rows(const char* title, std::vector<Row> rows, std::string (*show)(double)) {
  std::ranges::stable_sort(rows, std::greater(),
                           [](const Row& row) { return std::abs(row.difference()); });
  std::printf("\n%s\n", title);
  for (const Row& row : rows) {
    const double larger = std::max(std::abs(row.a), std::abs(row.b));
    if (larger == 0) continue;
    const bool same = std::abs(row.difference()) <= 1e-9 * larger;
    std::printf(
        "  %-28s %12s %12s   %s\n", row.name.c_str(), show(row.a).c_str(), show(row.b).c_str(),
        same ? "same" : str(row.difference() > 0 ? "+" : "", show(row.difference())).c_str());
  }
}

// Parameters that lie otherwise; grouped by what they are, since layers repeat.
void print_layouts(const Explained& a, const Explained& b) {
  const auto types = [](const Explained& e) {
    std::map<std::string, std::string> found;
    for (const PlanFunc& func : e.plan.funcs) {
      for (const PlanArg& arg : func.args) {
        const PlanValue& value = func.values[static_cast<std::size_t>(arg.value)];
        if (arg.role == ArgRole::Param) found[value.name] = to_text(value.type, e.plan.grid);
      }
    }
    return found;
  };
  const auto of_a = types(a), of_b = types(b);
  std::map<std::string, std::pair<std::string, int>> changes;  // text -> example, count
  for (const auto& [name, type] : of_a) {
    const auto other = of_b.find(name);
    const std::string change =
        str(type, "  ->  ", other == of_b.end() ? std::string("absent") : other->second);
    if (other != of_b.end() && other->second == type) continue;
    auto& [example, count] = changes[change];
    if (example.empty()) example = name;
    ++count;
  }
  if (changes.empty()) return;
  std::printf("\nparameters that lie otherwise\n");
  for (const auto& [change, seen] : changes) {
    std::printf("  %s\n      %%%s%s\n", change.c_str(), seen.first.c_str(),
                seen.second > 1 ? str(" and ", seen.second - 1, " others").c_str() : "");
  }
}

}  // namespace

void print_diff(const Explained& a, const Explained& b) {
  const Prediction &p = a.prediction, &q = b.prediction;
  std::printf("A  %s\nB  %s\non %s: %s against %s a step, B takes %s%s\n", a.heading().c_str(),
              b.heading().c_str(), a.machine.name.c_str(), seconds_text(p.seconds).c_str(),
              seconds_text(q.seconds).c_str(), percent(q.seconds, p.seconds).c_str(),
              " of A's time");
  print_rows("time",
             {{"compute", p.compute, q.compute},
              {"optimizer", p.optimizer, q.optimizer},
              {"exposed communication", p.exposed, q.exposed},
              {"hidden communication", p.hidden(), q.hidden()}},
             seconds_text);
  std::map<std::string, Row> collectives;
  for (const auto& [name, total] : p.collectives) collectives[name].a = total.seconds;
  for (const auto& [name, total] : q.collectives) collectives[name].b = total.seconds;
  std::vector<Row> rows;
  for (auto& [name, row] : collectives) rows.push_back({name, row.a, row.b});
  print_rows("collectives", rows, seconds_text);
  std::map<std::string, Row> memory;
  for (const auto& [name, bytes] : p.memory) memory[name].a = bytes;
  for (const auto& [name, bytes] : q.memory) memory[name].b = bytes;
  rows.clear();
  for (auto& [name, row] : memory) rows.push_back({name, row.a, row.b});
  print_rows("memory of a rank", rows, bytes_text);
  print_layouts(a, b);
}

}  // namespace tessera
