#include "runtime/device.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "ir/base/text.h"
#include "runtime/cpu/threads.h"

namespace tessera {
namespace {

constexpr auto kWakeUp = std::chrono::milliseconds(50);

class InlineStream : public Stream {
 public:
  void enqueue(std::function<void()> work) override { work(); }
  void synchronize() override {}
};

class WorkerStream : public Stream {
 public:
  explicit WorkerStream(const AbortFlag& abort) : abort_(abort), thread_([this] { run(); }) {}
  ~WorkerStream() override {
    {
      const std::lock_guard lock(mutex_);
      closing_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  void enqueue(std::function<void()> work) override {
    {
      const std::lock_guard lock(mutex_);
      queue_.push_back(std::move(work));
      ++pending_;
    }
    changed_.notify_all();
  }

  void synchronize() override {
    std::unique_lock lock(mutex_);
    while (pending_ > 0 && !error_) {
      if (abort_.is_set()) throw Aborted();
      changed_.wait_for(lock, kWakeUp);
    }
    if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
  }

 private:
  void run() {
    cpu::use_one_math_thread();
    for (;;) {
      std::function<void()> work;
      {
        std::unique_lock lock(mutex_);
        while (queue_.empty() && !closing_) changed_.wait(lock);
        if (queue_.empty()) return;
        work = std::move(queue_.front());
        queue_.pop_front();
      }
      std::exception_ptr error;
      try {
        if (!abort_.is_set()) work();
      } catch (...) {
        error = std::current_exception();
      }
      {
        const std::lock_guard lock(mutex_);
        --pending_;
        if (error && !error_) error_ = error;
      }
      changed_.notify_all();
    }
  }

  const AbortFlag& abort_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> queue_;
  std::size_t pending_ = 0;
  bool closing_ = false;
  std::exception_ptr error_;
  std::thread thread_;
};

}  // namespace

Arena::Arena(std::size_t bytes) : bytes_(std::max<std::size_t>(bytes, 1)) {
  void* data = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED)
    throw WorldError(str("cannot allocate an arena of ", bytes_, " bytes: ", std::strerror(errno)));
  data_ = static_cast<std::byte*>(data);
}

Arena::~Arena() { ::munmap(data_, bytes_); }

void Event::set() {
  {
    const std::lock_guard lock(mutex_);
    set_ = true;
  }
  changed_.notify_all();
}

void Event::wait(const AbortFlag& abort) {
  std::unique_lock lock(mutex_);
  while (!set_) {
    if (abort.is_set()) throw Aborted();
    changed_.wait_for(lock, kWakeUp);
  }
}

std::unique_ptr<Stream> make_inline_stream() { return std::make_unique<InlineStream>(); }
std::unique_ptr<Stream> make_worker_stream(const AbortFlag& abort) {
  return std::make_unique<WorkerStream>(abort);
}

}  // namespace tessera
