// A Chrome/Perfetto trace: one row per rank and stream.
#pragma once
#include <chrono>
#include <filesystem>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace tessera {

class Trace {
 public:
  using Clock = std::chrono::steady_clock;
  explicit Trace(int rank) : rank_(rank) {}

  // From any thread. `stream`: its row; 0 is compute.
  void record(const std::string& name, const std::string& category, int stream,
              Clock::time_point start, Clock::time_point end) {
    const std::lock_guard lock(mutex_);
    events_.push_back({name, category, stream, start, end});
  }
  void name_stream(int stream, const std::string& name) { streams_[stream] = name; }
  // JSON objects of this rank's events, comma separated; times in microseconds since `origin`.
  std::string json(Clock::time_point origin) const;

 private:
  struct Event {
    std::string name, category;
    int stream;
    Clock::time_point start, end;
  };
  int rank_;
  std::map<int, std::string> streams_{{0, "compute"}};
  std::mutex mutex_;
  std::vector<Event> events_;
};

// Writes the events of all ranks as one file.
void write_trace(const std::filesystem::path& path, const std::vector<std::string>& ranks);

}  // namespace tessera
