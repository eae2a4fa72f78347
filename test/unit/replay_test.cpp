// Streams that share links: what a schedule takes.
#include <gtest/gtest.h>

#include "ir/base/random.h"
#include "passes/cost/replay_streams.h"

namespace tessera {
namespace {

TEST(Replay, AStreamRunsItsTasksInOrder) {
  const std::vector<StreamTask> tasks{{0, 1, -1, {}}, {0, 2, -1, {}}, {1, 4, 0, {0}}};
  const std::vector<Span> spans = replay_streams(tasks);
  EXPECT_DOUBLE_EQ(spans[1].start, 1);
  EXPECT_DOUBLE_EQ(spans[1].end, 3);
  EXPECT_DOUBLE_EQ(spans[2].start, 1);
  EXPECT_DOUBLE_EQ(spans[2].end, 5);
}

// Two on one link take twice as long while both run; one on another link is left alone.
TEST(Replay, CollectivesShareALink) {
  const std::vector<StreamTask> tasks{{1, 2, 0, {}}, {2, 3, 0, {}}, {3, 2, 1, {}}};
  const std::vector<Span> spans = replay_streams(tasks);
  EXPECT_DOUBLE_EQ(spans[0].end, 4);
  EXPECT_DOUBLE_EQ(spans[1].end, 5);
  EXPECT_DOUBLE_EQ(spans[2].end, 2);
}

TEST(Replay, TasksWithoutADurationPassOn) {
  const std::vector<StreamTask> tasks{{1, 2, 0, {}}, {0, 0, -1, {0}}, {0, 1, -1, {}}};
  const std::vector<Span> spans = replay_streams(tasks);
  EXPECT_DOUBLE_EQ(spans[1].start, 2);
  EXPECT_DOUBLE_EQ(spans[1].end, 2);
  EXPECT_DOUBLE_EQ(spans[2].end, 3);
}

// Whatever overlaps, the whole takes no longer than everything one after the other, and no less
// than any stream or link by itself.
TEST(Replay, IsBetweenTheSumAndTheBusiestStreamAndLink) {
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    std::uint64_t count = 0;
    const auto random = [&](int below) {
      return static_cast<int>(random_bits(seed, 0, count++) % static_cast<std::uint64_t>(below));
    };
    std::vector<StreamTask> tasks;
    double sum = 0, streams[4] = {}, links[2] = {};
    for (int i = 0; i < 40; ++i) {
      StreamTask task{random(4), random(5) * 0.25, -1, {}};
      if (task.stream > 0) task.link = random(2);
      while (i > 0 && random(2) == 0) task.after.push_back(random(i));
      sum += task.seconds;
      streams[task.stream] += task.seconds;
      if (task.link >= 0) links[task.link] += task.seconds;
      tasks.push_back(task);
    }
    double end = 0;
    for (const Span& span : replay_streams(tasks)) end = std::max(end, span.end);
    EXPECT_LE(end, sum * (1 + 1e-12)) << seed;
    for (const double stream : streams) EXPECT_GE(end, stream * (1 - 1e-12)) << seed;
    for (const double link : links) EXPECT_GE(end, link * (1 - 1e-12)) << seed;
  }
}

}  // namespace
}  // namespace tessera
