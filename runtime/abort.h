// The job's abort flag: the first error wins, every wait takes the flag, nothing waits on the error
// path.
#pragma once
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <stdexcept>
#include <string>

namespace tessera {

// The world's fault (a lost rank, a failed library call): exit code 3.
class WorldError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Thrown by waits when another rank failed first; never reported itself.
class Aborted : public std::runtime_error {
 public:
  Aborted() : std::runtime_error("another rank failed") {}
};

class AbortFlag {
 public:
  bool is_set() const { return set_.load(std::memory_order_acquire); }
  // Keeps the first error; returns whether this one was it.
  bool set(const std::string& message, int exit_code) {
    const std::lock_guard lock(mutex_);
    if (set_.load(std::memory_order_relaxed)) return false;
    message_ = message;
    exit_code_ = exit_code;
    set_.store(true, std::memory_order_release);
    return true;
  }
  std::string message() const {
    const std::lock_guard lock(mutex_);
    return message_;
  }
  int exit_code() const {
    const std::lock_guard lock(mutex_);
    return exit_code_;
  }

 private:
  std::atomic<bool> set_{false};
  mutable std::mutex mutex_;
  std::string message_;
  int exit_code_ = 0;
};

}  // namespace tessera
