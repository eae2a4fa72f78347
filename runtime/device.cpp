#include "runtime/device.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "ir/base/random.h"
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
  WorkerStream(RankAbort& abort, std::optional<std::uint64_t> delay_seed)
      : abort_(abort), delay_seed_(delay_seed), thread_([this] { run(); }) {}
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
    while (pending_ > 0) {
      abort_.check();
      changed_.wait_for(lock, kWakeUp);
    }
    abort_.check();
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
      try {
        if (!abort_.is_set()) {
          pause();
          work();
        }
      } catch (const Aborted&) {
      } catch (...) {
        abort_.fail(std::current_exception());
      }
      {
        const std::lock_guard lock(mutex_);
        --pending_;
      }
      changed_.notify_all();
    }
  }

  void pause() {
    if (!delay_seed_) return;
    constexpr std::uint64_t kLongest = 200;  // microseconds
    const std::uint64_t wait = random_bits(*delay_seed_, 0, count_++) % kLongest;
    if (wait % 4 == 0) std::this_thread::sleep_for(std::chrono::microseconds(wait));
  }

  RankAbort& abort_;
  const std::optional<std::uint64_t> delay_seed_;
  std::uint64_t count_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> queue_;
  std::size_t pending_ = 0;
  bool closing_ = false;
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

void RankAbort::fail(std::exception_ptr error) {
  const std::lock_guard lock(mutex_);
  if (error_) return;
  error_ = std::move(error);
  failed_.store(true, std::memory_order_release);
}

void RankAbort::check() const {
  {
    const std::lock_guard lock(mutex_);
    if (error_) std::rethrow_exception(error_);
  }
  if (job_.is_set()) throw Aborted();
}

void Event::record() {
  {
    const std::lock_guard lock(mutex_);
    ++times_;
  }
  changed_.notify_all();
}

void Event::wait(std::uint64_t times, const RankAbort& abort) {
  std::unique_lock lock(mutex_);
  while (times_ < times) {
    abort.check();
    changed_.wait_for(lock, kWakeUp);
  }
}

std::unique_ptr<Stream> make_inline_stream() { return std::make_unique<InlineStream>(); }
std::unique_ptr<Stream> make_worker_stream(RankAbort& abort,
                                           std::optional<std::uint64_t> delay_seed) {
  return std::make_unique<WorkerStream>(abort, delay_seed);
}

}  // namespace tessera
