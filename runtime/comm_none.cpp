// Stands in for comm_mpi.cpp in builds without MPI.
#include "runtime/comm.h"

#ifndef TESSERA_HAS_MPI

namespace tessera {

bool has_mpi() { return false; }

std::unique_ptr<World> make_mpi_world(Timeout, AbortFlag&) {
  throw WorldError("this build has no MPI");
}

}  // namespace tessera

#endif
