// The CPU device: an arena, streams and events. A plan without overlap runs on the rank's own
// thread (the inline stream); a worker stream is a thread with a queue that blocks when it is
// empty. Every wait takes the job's abort flag.
#pragma once
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "runtime/abort.h"

namespace tessera {

// Zeroed memory, aligned to 4096 bytes, first touched by the thread that makes it.
class Arena {
 public:
  explicit Arena(std::size_t bytes);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;
  std::byte* at(std::int64_t offset) const { return data_ + offset; }
  std::size_t bytes() const { return bytes_; }

 private:
  std::size_t bytes_;
  std::byte* data_ = nullptr;
};

// What ends the waits of one rank: the job's abort, or the first error of one of its own streams.
class RankAbort {
 public:
  explicit RankAbort(const AbortFlag& job) : job_(job) {}
  bool is_set() const { return failed_.load(std::memory_order_acquire) || job_.is_set(); }
  void fail(std::exception_ptr error);  // the first one is kept
  // Throws the rank's own error, else Aborted if the job was aborted.
  void check() const;

 private:
  const AbortFlag& job_;
  std::atomic<bool> failed_{false};
  mutable std::mutex mutex_;
  std::exception_ptr error_;
};

// A point that a stream passes once in every run of its function; others wait for its n-th passing.
class Event {
 public:
  void record();
  void wait(std::uint64_t times, const RankAbort& abort);  // throws

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t times_ = 0;
};

class Stream {
 public:
  virtual ~Stream() = default;
  virtual void enqueue(std::function<void()> work) = 0;
  virtual void synchronize() = 0;  // until all work so far is done; throws what the work threw
};

std::unique_ptr<Stream> make_inline_stream();
// `delay_seed`: pauses of random length before each piece of work, for tests.
std::unique_ptr<Stream> make_worker_stream(RankAbort& abort,
                                           std::optional<std::uint64_t> delay_seed = {});

}  // namespace tessera
