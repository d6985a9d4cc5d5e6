// Number of this rank among the ranks on this machine: a test or a bench on GPUs takes its own GPU
// by this number.
#pragma once

#include <mpi.h>

namespace zeropp::test {

/// Number of this rank on its host, in launched order. Collective over MPI_COMM_WORLD.
inline int host_rank() {
  MPI_Comm host = MPI_COMM_NULL;
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host);
  int rank = 0;
  MPI_Comm_rank(host, &rank);
  MPI_Comm_free(&host);
  return rank;
}

}  // namespace zeropp::test
