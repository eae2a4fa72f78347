// The CPU device: an arena, streams and events. A plan without overlap runs on the rank's own
// thread (the inline stream); a worker stream is a thread with a queue that blocks when it is
// empty. Every wait takes the job's abort flag.
#pragma once
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
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

// Set once, by a stream that reached it.
class Event {
 public:
  void set();
  void wait(const AbortFlag& abort);  // throws Aborted

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool set_ = false;
};

class Stream {
 public:
  virtual ~Stream() = default;
  virtual void enqueue(std::function<void()> work) = 0;
  virtual void synchronize() = 0;  // until all work so far is done; throws what the work threw
};

std::unique_ptr<Stream> make_inline_stream();
std::unique_ptr<Stream> make_worker_stream(const AbortFlag& abort);

}  // namespace tessera
