// Where the time of a compilation goes, by stage, in order of first use.
#pragma once
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

namespace tessera {

class Timings {
 public:
  template <class Run>
  auto time(const std::string& stage, Run run) {
    const auto start = std::chrono::steady_clock::now();
    auto result = run();
    add(stage, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    return result;
  }
  void add(const std::string& stage, double seconds) {
    const auto found = std::ranges::find(stages_, stage, &std::pair<std::string, double>::first);
    if (found != stages_.end()) {
      found->second += seconds;
    } else {
      stages_.emplace_back(stage, seconds);
    }
  }
  void print() const {
    for (const auto& [stage, seconds] : stages_)
      std::printf("time %-24s %8.3f s\n", stage.c_str(), seconds);
  }

 private:
  std::vector<std::pair<std::string, double>> stages_;
};

}  // namespace tessera
