#include "tools/tessera/explain.h"

#include <algorithm>
#include <cstdio>
#include <iostream>

#include "ir/base/diag.h"
#include "ir/base/file.h"
#include "ir/base/text.h"
#include "tools/tessera/explain_parts.h"

namespace tessera {
namespace {

void print_time(const Prediction& p) {
  std::printf("\ntime\n");
  line("compute", seconds_text(p.compute), percent(p.compute, p.seconds));
  line("optimizer", seconds_text(p.optimizer), percent(p.optimizer, p.seconds));
  line("exposed communication", seconds_text(p.exposed), percent(p.exposed, p.seconds));
  line("hidden communication", seconds_text(p.hidden()));
  if (p.hidden() > 0)
    line("without overlap", seconds_text(p.blocking_seconds()),
         str("the step is ", percent(p.blocking_seconds() / p.seconds - 1, 1), " faster with it"));
  if (!p.collectives.empty())
    std::printf(
        "\ncollectives of a step, on one rank: exposed, hidden (blocking: all of it exposed)\n");
  std::vector<std::pair<std::string, CollectiveTotal>> rows(p.collectives.begin(),
                                                            p.collectives.end());
  std::ranges::sort(rows, std::greater(), [](const auto& row) { return row.second.seconds; });
  for (const auto& [name, total] : rows)
    std::printf("  %-28s %9s %9s  %g x, %s sent\n", name.c_str(),
                seconds_text(total.exposed).c_str(), seconds_text(total.hidden()).c_str(),
                total.count, bytes_text(total.bytes).c_str());
}

// Why a candidate lost: what it takes more of.
std::string lost_by(const Json& row, const Json& best) {
  if (!row.at("fits").get<bool>()) return "does not fit";
  std::string text;
  for (const auto& [key, what] :
       {std::pair{"compute_seconds", "compute"}, {"communication_seconds", "communication"}}) {
    const double more = row.at(key).get<double>() - best.at(key).get<double>();
    if (std::abs(more) < 0.005 * best.at("seconds").get<double>()) continue;
    text += str(text.empty() ? "" : ", ", what, more > 0 ? " +" : " ", seconds_text(more));
  }
  return text.empty() ? "as good" : text;
}

void print_row(const std::string& name, const Json& row, const Json& best) {
  const double seconds = row.at("seconds"), least = best.at("seconds");
  const bool fits = row.at("fits");
  char slower[24] = "";
  if (fits && seconds > least)
    std::snprintf(slower, sizeof slower, "+%.0f%%", 100 * (seconds / least - 1));
  std::printf("  %-12s %-30s %9s %6s %9s  %s\n", name.c_str(),
              row.at("grid").get<std::string>().c_str(), fits ? seconds_text(seconds).c_str() : "-",
              slower, bytes_text(row.at("memory_bytes")).c_str(), lost_by(row, best).c_str());
  const std::string options = row.at("options");
  if (!options.empty()) std::printf("  %-12s %s\n", "", options.c_str());
}

// What else the search has seen, by its estimates.
void print_search(const Json& search) {
  constexpr std::size_t kRunnersUp = 4;
  const Json& grids = search.at("grids");
  if (grids.empty()) return;
  const Json& best = grids[0];
  std::printf("\nrunners-up and other systems' strategies (the search's estimates)\n");
  for (std::size_t i = 0; i < std::min(kRunnersUp + 1, grids.size()); ++i)
    print_row(i == 0 ? "chosen" : str(i + 1), grids[i], best);
  for (const Json& row : search.at("strategies")) {
    if (row.at("name") != "auto") print_row(row.at("name"), row, best);
  }
  const double bound = search.at("lower_bound_seconds");
  std::printf("  no plan on this machine takes less than %s\n", seconds_text(bound).c_str());
}

void print(const Explained& e) {
  const Prediction& p = e.prediction;
  std::printf("%s (%d ranks) on %s: %s a step expected\n", e.heading().c_str(), e.plan.grid.ranks(),
              e.machine.name.c_str(), seconds_text(p.seconds).c_str());
  print_time(p);
  std::printf("\narithmetic\n");
  line("model", flops_text(p.model_flops / p.seconds),
       str(percent(p.share_of_peak(), 1), " of peak"));
  line("repeated on several ranks",
       percent(p.rank_flops * e.plan.grid.ranks() - p.model_flops - p.recomputed_flops,
               p.model_flops));
  line("made again (recompute)", percent(p.recomputed_flops, p.model_flops));
  std::printf("\nmemory of a rank\n");
  for (const auto& [name, bytes] : p.memory) line(name, bytes_text(bytes));
  line("total", bytes_text(p.memory_total),
       str(p.memory_total <= e.machine.device.memory_bytes ? "fits in " : "DOES NOT FIT in ",
           bytes_text(e.machine.device.memory_bytes)));
  if (e.search) print_search(*e.search);
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
    events.push_back({{"name", "memory"},
                      {"ph", "C"},
                      {"pid", 0},
                      {"ts", event.start * 1e6},
                      {"args", {{"bytes", event.memory}}}});
  }
  write_text(path, Json{{"traceEvents", events}}.dump() + "\n");
}

}  // namespace

void explain(const ExplainFlags& flags) {
  const Explained e = load_explained(flags.plan, flags.machine);
  if (!flags.trace.empty()) write_timeline(flags.trace, e.prediction);
  if (!flags.html.empty()) write_html(e, flags.html);
  if (!flags.why.empty()) return print_why(e, flags.why);
  if (!flags.diff.empty()) return print_diff(e, load_explained(flags.diff, flags.machine));
  if (flags.json) {
    std::cout << to_json(e).dump(2) << "\n";
  } else {
    print(e);
  }
}

}  // namespace tessera
