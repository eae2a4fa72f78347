#include "runtime/trace.h"

#include <nlohmann/json.hpp>

#include "ir/base/file.h"

namespace tessera {

std::string Trace::json(Clock::time_point origin) const {
  const auto microseconds = [&](Clock::time_point t) {
    return std::chrono::duration<double, std::micro>(t - origin).count();
  };
  const auto metadata = [&](const char* name, int row, const std::string& value) {
    return nlohmann::json{
        {"name", name}, {"ph", "M"}, {"pid", rank_}, {"tid", row}, {"args", {{"name", value}}}}
        .dump();
  };
  std::string text = metadata("process_name", 0, "rank " + std::to_string(rank_));
  for (const auto& [row, name] : streams_) text += ",\n" + metadata("thread_name", row, name);
  for (const Event& event : events_) {
    const nlohmann::json item{{"name", event.name},
                              {"cat", event.category},
                              {"ph", "X"},
                              {"pid", rank_},
                              {"tid", event.stream},
                              {"ts", microseconds(event.start)},
                              {"dur", microseconds(event.end) - microseconds(event.start)}};
    text += ",\n" + item.dump();
  }
  return text;
}

void write_trace(const std::filesystem::path& path, const std::vector<std::string>& ranks) {
  write_atomically(path, [&](std::ostream& out) {
    out << "{\"traceEvents\": [\n";
    for (std::size_t r = 0; r < ranks.size(); ++r) out << (r > 0 ? ",\n" : "") << ranks[r];
    out << "\n]}\n";
  });
}

}  // namespace tessera
