// One rank per MPI process. Only bytes move through MPI; our code adds. Waits poll with pauses, so
// that ranks that share cores give way, and see the abort flag and the deadline.
#include <mpi.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <thread>

#include "ir/base/check.h"
#include "ir/base/text.h"
#include "runtime/comm.h"

namespace tessera {
namespace {

constexpr std::size_t kLargestMessage = std::size_t{1} << 28;

void check(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_string(code, text, &length);
  throw WorldError(str(call, ": ", std::string(text, static_cast<std::size_t>(length))));
}

class MpiGroup : public Group {
 public:
  MpiGroup(std::vector<int> members, int index, MPI_Comm comm, Timeout timeout, AbortFlag& abort)
      : Group(std::move(members), index), comm_(comm), timeout_(timeout), abort_(abort) {}

  void exchange(std::span<const ConstBytes> send, std::span<const Bytes> receive,
                const std::string& what) override {
    std::vector<MPI_Request> requests;
    std::vector<int> peers;
    for (int m = 0; m < size(); ++m) {
      const auto at = static_cast<std::size_t>(m);
      if (m == index()) {
        TESSERA_CHECK(send[at].size == receive[at].size, "a rank sends itself another size");
        if (receive[at].size > 0 && receive[at].data != send[at].data)
          std::memmove(receive[at].data, send[at].data, receive[at].size);
        continue;
      }
      post(receive[at].size, [&](std::size_t from, int count) {
        requests.push_back(MPI_REQUEST_NULL);
        peers.push_back(m);
        check(MPI_Irecv(receive[at].data + from, count, MPI_BYTE, members()[at], tag(what), comm_,
                        &requests.back()),
              "MPI_Irecv");
      });
    }
    for (int m = 0; m < size(); ++m) {
      const auto at = static_cast<std::size_t>(m);
      if (m == index()) continue;
      post(send[at].size, [&](std::size_t from, int count) {
        requests.push_back(MPI_REQUEST_NULL);
        peers.push_back(m);
        check(MPI_Isend(send[at].data + from, count, MPI_BYTE, members()[at], tag(what), comm_,
                        &requests.back()),
              "MPI_Isend");
      });
    }
    wait(requests, peers, what);
  }

 private:
  // Messages are at most 256 MiB; an empty one is sent too, so that exchanges of nothing are
  // barriers.
  template <class F>
  static void post(std::size_t size, F one) {
    std::size_t from = 0;
    do {
      const std::size_t count = std::min(kLargestMessage, size - from);
      one(from, static_cast<int>(count));
      from += count;
    } while (from < size);
  }

  // Different steps have different tags (nearly always), so that ranks that went astray do not read
  // each other's data.
  static int tag(const std::string& what) {
    std::uint32_t hash = 2166136261u;
    for (char c : what) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619u;
    return static_cast<int>(hash % 32749u);
  }

  void wait(std::vector<MPI_Request>& requests, const std::vector<int>& peers,
            const std::string& what) const {
    const auto start = std::chrono::steady_clock::now();
    for (int polls = 0;; ++polls) {
      int done = 0;
      check(MPI_Testall(static_cast<int>(requests.size()), requests.data(), &done,
                        MPI_STATUSES_IGNORE),
            "MPI_Testall");
      if (done != 0) return;
      if (abort_.is_set()) throw Aborted();
      if (polls < 20) {
        std::this_thread::yield();
      } else {
        std::this_thread::sleep_for(std::chrono::microseconds(polls < 200 ? 20 : 200));
      }
      if (std::chrono::steady_clock::now() - start > timeout_)
        throw WorldError(missing(requests, peers, what));
    }
  }

  std::string missing(std::vector<MPI_Request>& requests, const std::vector<int>& peers,
                      const std::string& what) const {
    std::string ranks;
    for (std::size_t i = 0; i < requests.size(); ++i) {
      int done = 0;
      MPI_Test(&requests[i], &done, MPI_STATUS_IGNORE);
      const std::string rank = str(members()[static_cast<std::size_t>(peers[i])]);
      if (done == 0 && ranks.find(rank) == std::string::npos)
        ranks += str(ranks.empty() ? "" : ", ", rank);
    }
    return str(what, ": waited ", timeout_.count(), " s for rank ", ranks);
  }

  MPI_Comm comm_;
  Timeout timeout_;
  AbortFlag& abort_;
};

class MpiWorld : public World {
 public:
  MpiWorld(int rank, int size, Timeout timeout, AbortFlag& abort)
      : World(rank, size, &abort), timeout_(timeout) {}
  // After an error there is nothing to agree on any more: the process leaves, and the launcher ends
  // the others.
  ~MpiWorld() override {
    if (abort_flag().is_set()) return;
    MPI_Finalize();
  }

  std::unique_ptr<Group> group(const std::vector<int>& members, int channel) override {
    const auto at = std::find(members.begin(), members.end(), rank());
    TESSERA_CHECK(at != members.end(), "rank ", rank(), " is not in the group it asks for");
    return std::make_unique<MpiGroup>(members, static_cast<int>(at - members.begin()),
                                      communicator(channel), timeout_, abort_flag());
  }

 private:
  // One for each channel: messages of different streams must not match.
  MPI_Comm communicator(int channel) {
    const auto [found, fresh] = communicators_.try_emplace(channel, MPI_COMM_NULL);
    if (fresh) check(MPI_Comm_dup(MPI_COMM_WORLD, &found->second), "MPI_Comm_dup");
    return found->second;
  }

  Timeout timeout_;
  std::map<int, MPI_Comm> communicators_;
};

}  // namespace

bool has_mpi() { return true; }

std::unique_ptr<World> make_mpi_world(Timeout timeout, AbortFlag& abort) {
  int provided = 0;
  check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided), "MPI_Init_thread");
  check(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  int rank = 0, size = 1;
  check(MPI_Comm_rank(MPI_COMM_WORLD, &rank), "MPI_Comm_rank");
  check(MPI_Comm_size(MPI_COMM_WORLD, &size), "MPI_Comm_size");
  return std::make_unique<MpiWorld>(rank, size, timeout, abort);
}

}  // namespace tessera
