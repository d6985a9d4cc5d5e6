// The counter of pmpi_counter.cpp for a program that knows nothing of it: preloaded (LD_PRELOAD),
// it writes "<destination> <bytes>" lines to $ZEROPP_PMPI_OUTPUT.<rank> when MPI ends.
#include <mpi.h>

#include <cstdlib>
#include <fstream>
#include <string>

#include "tests/support/pmpi_counter.hpp"

extern "C" int MPI_Finalize() {
  int rank = 0;
  PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const char* path = std::getenv("ZEROPP_PMPI_OUTPUT");
  if (path == nullptr) std::abort();  // preloaded without a place to write: a mistake in the test
  std::ofstream file(std::string(path) + "." + std::to_string(rank));
  const auto counts = zeropp::test::take_pmpi_counts();
  for (std::size_t peer = 0; peer < counts.bytes_to.size(); ++peer) {
    file << peer << " " << counts.bytes_to[peer] << "\n";
  }
  return PMPI_Finalize();
}
