#include "passes/cost/replay_streams.h"

#include <algorithm>
#include <cmath>

#include "ir/base/check.h"

namespace tessera {
namespace {

class Streams {
 public:
  explicit Streams(std::span<const StreamTask> tasks)
      : tasks_(tasks), spans_(tasks.size()), missing_(tasks.size(), 0), next_(tasks.size()) {
    std::vector<int> last;  // of each stream
    int links = 0;
    for (std::size_t i = 0; i < tasks.size(); ++i) {
      const StreamTask& task = tasks[i];
      const auto self = static_cast<int>(i);
      if (at(task.stream) >= last.size()) last.resize(at(task.stream) + 1, -1);
      int& before = last[at(task.stream)];
      if (before >= 0) add_edge(before, self);
      before = self;
      for (const int other : task.after) add_edge(other, self);
      links = std::max(links, task.link + 1);
    }
    sharing_.resize(at(links), 0);
  }

  std::vector<Span> run() {
    for (std::size_t i = 0; i < tasks_.size(); ++i) {
      if (missing_[i] == 0) ready_.push_back(static_cast<int>(i));
    }
    start_what_can();
    while (!running_.empty()) {
      advance();
      start_what_can();
    }
    TESSERA_CHECK(ended_ == tasks_.size(), "tasks wait for each other");
    return std::move(spans_);
  }

 private:
  struct Running {
    int task = 0;
    double left = 0;  // seconds, when nothing shares its link
  };

  static std::size_t at(int i) { return static_cast<std::size_t>(i); }

  void add_edge(int before, int after) {
    next_[at(before)].push_back(after);
    ++missing_[at(after)];
  }

  // Tasks without a duration end at once and may let others start.
  void start_what_can() {
    while (!ready_.empty()) {
      const int i = ready_.back();
      ready_.pop_back();
      spans_[at(i)].start = now_;
      if (tasks_[at(i)].seconds > 0) {
        running_.push_back({i, tasks_[at(i)].seconds});
        if (tasks_[at(i)].link >= 0) ++sharing_[at(tasks_[at(i)].link)];
      } else {
        end(i);
      }
    }
  }

  void end(int i) {
    spans_[at(i)].end = now_;
    ++ended_;
    for (const int later : next_[at(i)]) {
      if (--missing_[at(later)] == 0) ready_.push_back(later);
    }
  }

  double slowness(int i) const {
    const int link = tasks_[at(i)].link;
    return link < 0 ? 1.0 : sharing_[at(link)];
  }

  // To the next end of a task.
  void advance() {
    double step = HUGE_VAL;
    for (const Running& r : running_) step = std::min(step, r.left * slowness(r.task));
    now_ += step;
    std::vector<int> ends;
    for (Running& r : running_) {
      const double slow = slowness(r.task);
      if (r.left * slow <= step * (1 + 1e-12)) ends.push_back(r.task);
      r.left -= step / slow;
    }
    for (const int i : ends) {
      std::erase_if(running_, [&](const Running& r) { return r.task == i; });
      if (tasks_[at(i)].link >= 0) --sharing_[at(tasks_[at(i)].link)];
      end(i);
    }
  }

  std::span<const StreamTask> tasks_;
  std::vector<Span> spans_;
  std::vector<int> missing_;            // by task: how many must end before it starts
  std::vector<std::vector<int>> next_;  // by task: those that wait for it
  std::vector<int> ready_;
  std::vector<Running> running_;
  std::vector<int> sharing_;  // by link, how many keep it busy
  std::size_t ended_ = 0;
  double now_ = 0;
};

}  // namespace

std::vector<Span> replay_streams(std::span<const StreamTask> tasks) { return Streams(tasks).run(); }

}  // namespace tessera
