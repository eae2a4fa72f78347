// Communication: a rank's view of the job, and groups of ranks that exchange bytes. Reductions are
// ours (collectives.h), added in group order, so results are bitwise the same for threads and
// processes.
#pragma once
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/abort.h"

namespace tessera {

struct ConstBytes {
  const std::byte* data = nullptr;
  std::size_t size = 0;
};
struct Bytes {
  std::byte* data = nullptr;
  std::size_t size = 0;
};

// A link that is slower than the machine's own memory: what one member sends takes at least
// (size - 1) alpha + bytes / beta, the time of a ring.
struct ModelledLink {
  double alpha = 0;  // seconds
  double beta = 0;   // bytes per second
};

class Group {
 public:
  virtual ~Group() = default;
  int size() const { return static_cast<int>(members_.size()); }
  int index() const { return index_; }
  const std::vector<int>& members() const { return members_; }

  // What member i sends to j (its send[j]) arrives in j's receive[i]. Every member must call it,
  // with sizes that match. `what` names the step for errors and is compared between members. Throws
  // WorldError or Aborted.
  virtual void exchange(std::span<const ConstBytes> send, std::span<const Bytes> receive,
                        const std::string& what) = 0;
  // From now on exchanges take that long at least; the rest of it is slept, which holds no core.
  // Throws CompileError where the transport cannot.
  virtual void model(const ModelledLink& link);

 protected:
  Group(std::vector<int> members, int index) : members_(std::move(members)), index_(index) {}

 private:
  std::vector<int> members_;
  int index_;
};

// One rank's handle to the job.
class World {
 public:
  virtual ~World() = default;
  int rank() const { return rank_; }
  int size() const { return size_; }
  AbortFlag& abort_flag() { return *abort_; }

  // The group of these ranks (this one included). Exchanges of different channels do not meet, so
  // that each may be used by a stream of its own; channel 0 is for control data. Every rank of the
  // job must ask for the same channels in the same order, with groups of its own.
  virtual std::unique_ptr<Group> group(const std::vector<int>& members, int channel) = 0;
  // The group of all ranks, for control data.
  Group& everyone();
  void barrier(const std::string& what);
  // Compares a text over all ranks; throws WorldError naming the first rank that differs.
  void check_same(const std::string& text, const std::string& what);

 protected:
  World(int rank, int size, AbortFlag* abort) : rank_(rank), size_(size), abort_(abort) {}

 private:
  int rank_, size_;
  AbortFlag* abort_;
  std::unique_ptr<Group> everyone_;
};

// How long a wait may last before it names who did not come.
using Timeout = std::chrono::duration<double>;

// All ranks as threads of this process: one hub, one world per rank.
class LocalHub;
std::shared_ptr<LocalHub> make_local_hub(int size, Timeout timeout, AbortFlag& abort);
std::unique_ptr<World> make_local_world(std::shared_ptr<LocalHub> hub, int rank);

// One rank per MPI process. Null when this build has no MPI.
bool has_mpi();
std::unique_ptr<World> make_mpi_world(Timeout timeout, AbortFlag& abort);

}  // namespace tessera
