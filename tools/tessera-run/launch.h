// Starting the ranks of a job: threads here, or this process as one rank under MPI.
#pragma once
#include "runtime/session.h"

namespace tessera {

// Whether a launcher (mpirun, srun) started this process as one of several.
bool launched_by_mpi();
// Runs all ranks as threads. Returns the exit code: 0, 2 (user), 3 (world), 4 (ours).
int run_local(const Plan& plan, const SessionOptions& options, Timeout timeout);
// Runs this process's rank.
int run_mpi(const Plan& plan, const SessionOptions& options, Timeout timeout);
// Replaces this process by mpirun with the same arguments ("mpi:8"); prints the line first.
int exec_mpirun(const std::string& ranks, int argc, char** argv);

}  // namespace tessera
