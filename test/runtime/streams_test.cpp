// Streams and events under random delays: TESSERA_SEEDS of them.
#include <gtest/gtest.h>

#include <cstdlib>

#include "ir/base/random.h"
#include "runtime/device.h"

namespace tessera {
namespace {

int seeds() {
  const char* text = std::getenv("TESSERA_SEEDS");
  return text == nullptr ? 5 : std::atoi(text);
}

// Two streams hand a value to and fro; every hand-over is an event.
TEST(Streams, EventsOrderWorkOfDifferentStreams) {
  for (int seed = 0; seed < seeds(); ++seed) {
    AbortFlag job;
    RankAbort abort(job);
    const auto compute = make_worker_stream(abort);
    const auto comm = make_worker_stream(abort);
    constexpr int kRounds = 20;
    std::vector<Event> there(kRounds), back(kRounds);
    long value = 1;
    long expected = 1;
    for (int i = 0; i < kRounds; ++i) {
      expected = expected * 3 + 1;
      const auto pause = std::chrono::microseconds(
          random_bits(static_cast<std::uint64_t>(seed), 0, static_cast<std::uint64_t>(i)) % 60);
      compute->enqueue([&, i, pause] {
        std::this_thread::sleep_for(pause);
        if (i > 0) back[static_cast<std::size_t>(i - 1)].wait(1, abort);
        value *= 3;
        there[static_cast<std::size_t>(i)].record();
      });
      comm->enqueue([&, i] {
        there[static_cast<std::size_t>(i)].wait(1, abort);
        value += 1;
        back[static_cast<std::size_t>(i)].record();
      });
    }
    compute->synchronize();
    comm->synchronize();
    EXPECT_EQ(value, expected);
  }
}

TEST(Streams, WhatWorkThrowsComesOutOfSynchronize) {
  AbortFlag job;
  RankAbort abort(job);
  const auto stream = make_worker_stream(abort);
  stream->enqueue([] { throw WorldError("lost"); });
  EXPECT_THROW(stream->synchronize(), WorldError);
}

TEST(Streams, AnAbortEndsEveryWait) {
  AbortFlag job;
  RankAbort abort(job);
  const auto stream = make_worker_stream(abort);
  Event never;
  stream->enqueue([&] { never.wait(1, abort); });
  job.set("gone", 3);
  EXPECT_THROW(stream->synchronize(), Aborted);
}

}  // namespace
}  // namespace tessera
