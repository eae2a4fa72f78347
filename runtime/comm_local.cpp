// Ranks as threads of one process: members publish what they send, meet, copy what is theirs, and
// meet again.
#include <algorithm>
#include <cstring>
#include <map>
#include <numeric>
#include <optional>
#include <thread>

#include "ir/base/check.h"
#include "ir/base/text.h"
#include "runtime/comm.h"

namespace tessera {
namespace {

// Where the members of one group meet. Waits wake up regularly to see the abort flag, and name who
// is missing.
class Meeting {
 public:
  Meeting(std::vector<int> members, Timeout timeout, AbortFlag& abort)
      : members_(std::move(members)),
        timeout_(timeout),
        abort_(abort),
        posts_(members_.size()),
        here_(members_.size(), 0) {}

  // What a member brings. Texts and sizes are copies, so that members compare them without looking
  // into one that left.
  struct Post {
    std::span<const ConstBytes> send;
    std::vector<std::size_t> sends, receives;
    std::string what;
  };

  // Before members look at each other's memory. One that gives up closes the meeting: nobody may
  // come to read what it is about to free.
  void arrive(std::size_t index, const std::string& what) {
    std::unique_lock lock(mutex_);
    if (closed_) throw Aborted();
    const std::uint64_t round = round_;
    if (all_came(index, lock)) return;
    const auto deadline = std::chrono::steady_clock::now() +
                          std::chrono::duration_cast<std::chrono::steady_clock::duration>(timeout_);
    while (round_ == round) {
      closed_ = closed_ || abort_.is_set() || std::chrono::steady_clock::now() > deadline;
      if (abort_.is_set()) throw Aborted();
      if (closed_) throw WorldError(missing(what));
      all_here_.wait_for(lock, std::chrono::milliseconds(50));
    }
  }

  // After they looked. Nothing on the way here can fail or block, and whoever left sooner would
  // pull its memory from under the others: no abort ends this wait.
  void leave(std::size_t index) {
    std::unique_lock lock(mutex_);
    const std::uint64_t round = round_;
    if (all_came(index, lock)) return;
    all_here_.wait(lock, [&] { return round_ != round; });
  }

  Post& post(std::size_t index) { return posts_[index]; }
  // When the last member arrived; between arrive and leave.
  std::chrono::steady_clock::time_point began() const { return began_; }
  const std::vector<int>& members() const { return members_; }

 private:
  bool all_came(std::size_t index, std::unique_lock<std::mutex>& lock) {
    here_[index] = 1;
    if (++count_ < members_.size()) return false;
    count_ = 0;
    ++round_;
    began_ = std::chrono::steady_clock::now();
    std::fill(here_.begin(), here_.end(), char{0});
    lock.unlock();
    all_here_.notify_all();
    return true;
  }

  std::string missing(const std::string& what) const {
    std::string ranks;
    for (std::size_t i = 0; i < members_.size(); ++i) {
      if (here_[i] == 0) ranks += str(ranks.empty() ? "" : ", ", members_[i]);
    }
    return str(what, ": waited ", timeout_.count(), " s for rank ", ranks);
  }

  const std::vector<int> members_;
  const Timeout timeout_;
  AbortFlag& abort_;
  std::mutex mutex_;
  std::condition_variable all_here_;
  std::vector<Post> posts_;
  std::vector<char> here_;
  std::size_t count_ = 0;
  std::uint64_t round_ = 0;
  std::chrono::steady_clock::time_point began_;
  bool closed_ = false;
};

class LocalGroup : public Group {
 public:
  LocalGroup(std::shared_ptr<Meeting> meeting, int index)
      : Group(meeting->members(), index), meeting_(std::move(meeting)) {}

  void exchange(std::span<const ConstBytes> send, std::span<const Bytes> receive,
                const std::string& what) override {
    const auto me = static_cast<std::size_t>(index());
    Meeting::Post& own = meeting_->post(me);
    own.send = send;
    own.what = what;
    own.sends.clear();
    own.receives.clear();
    for (const ConstBytes& bytes : send) own.sends.push_back(bytes.size);
    for (const Bytes& bytes : receive) own.receives.push_back(bytes.size);
    meeting_->arrive(me, what);
    check_posts();
    for (std::size_t from = 0; from < receive.size(); ++from) {
      const Meeting::Post& post = meeting_->post(from);
      if (receive[from].size > 0 && receive[from].data != post.send[me].data)
        std::memcpy(receive[from].data, post.send[me].data, receive[from].size);
    }
    const auto end = meeting_->began() + modelled();
    meeting_->leave(me);
    if (link_) std::this_thread::sleep_until(end);
  }

  void model(const ModelledLink& link) override { link_ = link; }

 private:
  // What the busiest member sends, over the modelled link.
  std::chrono::steady_clock::duration modelled() const {
    if (!link_) return {};
    std::size_t most = 0;
    for (std::size_t m = 0; m < members().size(); ++m) {
      const std::vector<std::size_t>& sends = meeting_->post(m).sends;
      most = std::max(most, std::accumulate(sends.begin(), sends.end(), std::size_t{0}) - sends[m]);
    }
    const double seconds = (size() - 1) * link_->alpha + static_cast<double>(most) / link_->beta;
    return std::chrono::duration_cast<std::chrono::steady_clock::duration>(Timeout(seconds));
  }

  // All members compare all posts, so that all come to the same decision and nobody reads from one
  // that gave up.
  void check_posts() const {
    const Meeting::Post& first = meeting_->post(0);
    for (std::size_t i = 0; i < members().size(); ++i) {
      const Meeting::Post& post = meeting_->post(i);
      if (post.what != first.what) {
        throw WorldError(str("ranks are at different steps: '", first.what, "' at rank ",
                             members()[0], ", '", post.what, "' at rank ", members()[i]));
      }
      for (std::size_t j = 0; j < members().size(); ++j) {
        const std::size_t expected = meeting_->post(j).receives[i];
        if (post.sends[j] != expected) {
          throw WorldError(str(post.what, ": rank ", members()[i], " sends ", post.sends[j],
                               " bytes to rank ", members()[j], ", which expects ", expected));
        }
      }
    }
  }

  std::shared_ptr<Meeting> meeting_;
  std::optional<ModelledLink> link_;
};

}  // namespace

class LocalHub {
 public:
  LocalHub(int size, Timeout timeout, AbortFlag& abort)
      : size_(size), timeout_(timeout), abort_(abort) {}

  std::shared_ptr<Meeting> meeting(const std::vector<int>& members, int channel) {
    const std::lock_guard lock(mutex_);
    std::shared_ptr<Meeting>& found = meetings_[{channel, members}];
    if (!found) found = std::make_shared<Meeting>(members, timeout_, abort_);
    return found;
  }
  int size() const { return size_; }
  AbortFlag& abort() { return abort_; }

 private:
  const int size_;
  const Timeout timeout_;
  AbortFlag& abort_;
  std::mutex mutex_;
  std::map<std::pair<int, std::vector<int>>, std::shared_ptr<Meeting>> meetings_;
};

namespace {

class LocalWorld : public World {
 public:
  LocalWorld(std::shared_ptr<LocalHub> hub, int rank)
      : World(rank, hub->size(), &hub->abort()), hub_(std::move(hub)) {}

  std::unique_ptr<Group> group(const std::vector<int>& members, int channel) override {
    const auto at = std::find(members.begin(), members.end(), rank());
    TESSERA_CHECK(at != members.end(), "rank ", rank(), " is not in the group it asks for");
    return std::make_unique<LocalGroup>(hub_->meeting(members, channel),
                                        static_cast<int>(at - members.begin()));
  }

 private:
  std::shared_ptr<LocalHub> hub_;
};

}  // namespace

std::shared_ptr<LocalHub> make_local_hub(int size, Timeout timeout, AbortFlag& abort) {
  return std::make_shared<LocalHub>(size, timeout, abort);
}

std::unique_ptr<World> make_local_world(std::shared_ptr<LocalHub> hub, int rank) {
  return std::make_unique<LocalWorld>(std::move(hub), rank);
}

}  // namespace tessera
