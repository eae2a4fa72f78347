#include "passes/cost/replay_streams.h"

#include <algorithm>
#include <cmath>

#include "ir/base/check.h"

namespace tessera {
namespace {

class Streams {
 public:
  explicit Streams(std::span<const StreamTask> tasks)
      : tasks_(tasks), spans_(tasks.size()), done_(tasks.size(), 0), left_(tasks.size()) {
    for (std::size_t i = 0; i < tasks.size(); ++i) {
      const auto stream = static_cast<std::size_t>(tasks[i].stream);
      if (stream >= queues_.size()) queues_.resize(stream + 1);
      queues_[stream].waiting.push_back(static_cast<int>(i));
      left_[i] = tasks[i].seconds;
      links_ = std::max(links_, tasks[i].link + 1);
    }
  }

  std::vector<Span> run() {
    for (;;) {
      start_what_can();
      if (!advance()) break;
    }
    for (const Queue& queue : queues_)
      TESSERA_CHECK(queue.next == queue.waiting.size(), "tasks wait for each other");
    return std::move(spans_);
  }

 private:
  struct Queue {
    std::vector<int> waiting;
    std::size_t next = 0;
    bool running = false;
    int head() const { return waiting[next]; }
  };

  bool can_start(const Queue& queue) const {
    return !queue.running && queue.next < queue.waiting.size() &&
           std::ranges::all_of(task(queue.head()).after,
                               [&](int i) { return done_[static_cast<std::size_t>(i)] != 0; });
  }

  // Tasks without a duration end at once and may let others start.
  void start_what_can() {
    for (bool again = true; again;) {
      again = false;
      for (Queue& queue : queues_) {
        while (can_start(queue)) {
          spans_[static_cast<std::size_t>(queue.head())].start = now_;
          queue.running = true;
          if (task(queue.head()).seconds > 0) break;
          finish(queue);
          again = true;
        }
      }
    }
  }

  void finish(Queue& queue) {
    const auto at = static_cast<std::size_t>(queue.head());
    spans_[at].end = now_;
    done_[at] = 1;
    queue.running = false;
    ++queue.next;
  }

  // To the next end of a task. False when none runs.
  bool advance() {
    std::vector<int> sharing(static_cast<std::size_t>(links_), 0);
    for (const Queue& queue : queues_) {
      if (queue.running && task(queue.head()).link >= 0)
        ++sharing[static_cast<std::size_t>(task(queue.head()).link)];
    }
    const auto slowness = [&](const StreamTask& task) {
      return task.link < 0 ? 1.0 : sharing[static_cast<std::size_t>(task.link)];
    };
    double step = HUGE_VAL;
    for (const Queue& queue : queues_) {
      if (queue.running) step = std::min(step, left(queue.head()) * slowness(task(queue.head())));
    }
    if (step == HUGE_VAL) return false;
    now_ += step;
    for (Queue& queue : queues_) {
      if (!queue.running) continue;
      double& left = left_[static_cast<std::size_t>(queue.head())];
      const double slow = slowness(task(queue.head()));
      const bool ends = left * slow <= step * (1 + 1e-12);
      left -= step / slow;
      if (ends) finish(queue);
    }
    return true;
  }

  const StreamTask& task(int i) const { return tasks_[static_cast<std::size_t>(i)]; }
  double left(int i) const { return left_[static_cast<std::size_t>(i)]; }

  std::span<const StreamTask> tasks_;
  std::vector<Span> spans_;
  std::vector<char> done_;
  std::vector<double> left_;  // seconds of each task that are still to do
  std::vector<Queue> queues_;
  double now_ = 0;
  int links_ = 0;
};

}  // namespace

std::vector<Span> replay_streams(std::span<const StreamTask> tasks) { return Streams(tasks).run(); }

}  // namespace tessera
