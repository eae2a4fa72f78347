// A Chrome/Perfetto trace: one row per rank and stream.
#pragma once
#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

namespace tessera {

class Trace {
 public:
  using Clock = std::chrono::steady_clock;
  explicit Trace(int rank) : rank_(rank) {}

  void record(const std::string& name, const std::string& category, Clock::time_point start,
              Clock::time_point end) {
    events_.push_back({name, category, start, end});
  }
  // JSON objects of this rank's events, comma separated; times in microseconds since `origin`.
  std::string json(Clock::time_point origin) const;

 private:
  struct Event {
    std::string name, category;
    Clock::time_point start, end;
  };
  int rank_;
  std::vector<Event> events_;
};

// Writes the events of all ranks as one file.
void write_trace(const std::filesystem::path& path, const std::vector<std::string>& ranks);

}  // namespace tessera
