#include "tools/tessera-run/launch.h"

#include <unistd.h>

#include <charconv>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <thread>

#include "ir/base/check.h"
#include "ir/base/diag.h"
#include "ir/base/text.h"
#include "tools/guarded.h"

namespace tessera {
namespace {

constexpr int kMaxLocalRanks = 512;
constexpr auto kJoinLimit = std::chrono::seconds(5);
constexpr auto kOthersGiveWay = std::chrono::seconds(2);

// Sizes that launchers announce.
int announced_size() {
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMIX_SIZE"}) {
    if (const char* text = std::getenv(name)) return std::atoi(text);
  }
  return 0;
}

// Runs one rank; the first error of the job is kept in the flag.
void run_rank(const Plan& plan, const SessionOptions& options, World& world) {
  AbortFlag& abort = world.abort_flag();
  const std::string rank = str("[rank ", world.rank(), "/", world.size(), "] ");
  try {
    run_session(plan, options, world);
  } catch (const Aborted&) {
  } catch (const std::exception& error) {
    const int code = exit_code(error);
    abort.set(str(code == 2 ? "" : rank, error_text(error)), code);
  }
}

void check_memory(const Plan& plan) {
  const double needed = static_cast<double>(plan.arena_bytes) * plan.grid.ranks();
  const double there =
      static_cast<double>(::sysconf(_SC_PHYS_PAGES)) * static_cast<double>(::sysconf(_SC_PAGESIZE));
  constexpr double kGiB = 1 << 30;
  if (needed > there)
    throw CompileError("--ranks local",
                       str(plan.grid.ranks(), " ranks need ", needed / kGiB,
                           " GiB, this machine has ", there / kGiB),
                       {"a smaller batch, more --micro-batches, or mpirun over several machines"});
}

void check_size(const Plan& plan, int size) {
  if (size == plan.grid.ranks()) return;
  throw CompileError(
      "",
      str("the plan's grid ", plan.grid.text(), " needs ", plan.grid.ranks(),
          " ranks, the job has ", size),
      {str("run it with mpirun -n ", plan.grid.ranks(), ", or compile it for another grid")});
}

}  // namespace

bool launched_by_mpi() { return announced_size() > 0; }

int run_local(const Plan& plan, const SessionOptions& options, Timeout timeout) {
  AbortFlag abort;
  const int ranks = plan.grid.ranks();
  if (ranks > kMaxLocalRanks)
    throw CompileError("--ranks local",
                       str("the plan's grid ", plan.grid.text(), " has ", ranks,
                           " ranks, more than the ", kMaxLocalRanks, " threads a process may have"),
                       {str("run it with mpirun -n ", ranks)});
  check_memory(plan);
  const auto hub = make_local_hub(ranks, timeout, abort);
  std::atomic<int> running = ranks;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    try {
      threads.emplace_back([&, rank] {
        const auto world = make_local_world(hub, rank);
        run_rank(plan, options, *world);
        --running;
      });
    } catch (const std::system_error& error) {
      abort.set(str("cannot start the thread of rank ", rank, ": ", error.what()), 3);
      running -= ranks - rank;
      break;
    }
  }
  while (running > 0 && !abort.is_set()) std::this_thread::sleep_for(std::chrono::milliseconds(2));
  if (abort
          .is_set()) {  // ranks that do not notice within seconds are left behind: the process ends
    std::cerr << abort.message() << std::endl;
    const auto limit = std::chrono::steady_clock::now() + kJoinLimit;
    while (running > 0 && std::chrono::steady_clock::now() < limit)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    if (running > 0) std::_Exit(abort.exit_code());
  }
  for (std::thread& thread : threads) thread.join();
  return abort.is_set() ? abort.exit_code() : 0;
}

int run_mpi(const Plan& plan, const SessionOptions& options, Timeout timeout) {
  if (!has_mpi()) {
    throw CompileError("",
                       str("started by an MPI launcher with ", announced_size(),
                           " ranks, but this build has no MPI"),
                       {"build with -DTESSERA_MPI=ON, or run it directly with --ranks local"});
  }
  AbortFlag abort;
  auto world = make_mpi_world(timeout, abort);
  if (world->size() != announced_size()) {
    throw CompileError(
        "", str("the launcher announces ", announced_size(), " ranks, MPI has ", world->size()),
        {"launcher and MPI library do not belong together"});
  }
  check_size(plan, world->size());
  run_rank(plan, options, *world);
  if (!abort.is_set()) {
    world.reset();
    return 0;
  }
  // A mistake of the user meets all ranks alike: rank 0 says so, and its exit ends the others
  // before they say the same.
  if (abort.exit_code() == 2 && world->rank() != 0) std::this_thread::sleep_for(kOthersGiveWay);
  std::cerr << abort.message() << std::endl;
  // No finalisation on the error path: the launcher ends the other ranks.
  std::_Exit(abort.exit_code());
}

int exec_mpirun(const std::string& ranks, int argc, char** argv) {
  int count = 0;
  const char* digits = ranks.size() > 4 && ranks[3] == ':' ? ranks.c_str() + 4 : "";
  const auto result = std::from_chars(digits, digits + std::strlen(digits), count);
  if (result.ec != std::errc() || *result.ptr != '\0' || count < 1)
    throw CompileError("--ranks", str("expected mpi:N, found '", ranks, "'"));
  std::vector<std::string> line{"mpirun", "-n", str(count), "--oversubscribe", "--bind-to", "none"};
  if (::geteuid() == 0) line.insert(line.begin() + 1, "--allow-run-as-root");
  char self[4096];
  const ssize_t length = ::readlink("/proc/self/exe", self, sizeof self - 1);
  line.push_back(length > 0 ? std::string(self, static_cast<std::size_t>(length)) : argv[0]);
  for (int i = 1; i < argc; ++i) {
    const std::string arg = argv[i];
    if (arg == "--ranks") {
      ++i;
    } else if (!arg.starts_with("--ranks=")) {
      line.push_back(arg);
    }
  }
  std::cout << join(line, " ") << std::endl;
  std::vector<char*> args;
  args.reserve(line.size() + 1);
  for (std::string& arg : line) args.push_back(arg.data());
  args.push_back(nullptr);
  ::execvp("mpirun", args.data());
  throw CompileError("--ranks", str("cannot start mpirun: ", std::strerror(errno)),
                     {"apt-get install openmpi-bin"});
}

}  // namespace tessera
