// An MPI whose MPI_Comm_free waits for all ranks of the communicator, as the standard allows a
// collective call to: preloaded (LD_PRELOAD) under a program that knows nothing of it.
#include <mpi.h>

extern "C" int MPI_Comm_free(MPI_Comm* comm) {
  PMPI_Barrier(*comm);
  return PMPI_Comm_free(comm);
}
