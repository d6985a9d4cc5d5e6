// Counter of what really goes to MPI: every point-to-point send of this process, counted at MPI's
// profiling interface by (destination, bytes), independent of the library's own counters. Linked
// only into the test that asks for it (its header line names pmpi_counter.cpp).
#pragma once

#include <cstdint>
#include <vector>

namespace zeropp::test {

struct PmpiCounts {
  /// Bytes to every rank of MPI_COMM_WORLD, the own one included.
  std::vector<std::uint64_t> bytes_to;
  std::vector<std::uint64_t> sends_to;  ///< calls to every rank of MPI_COMM_WORLD
  /// Calls that move data on a route of MPI's own.
  std::uint64_t collectives = 0;
};

/// Counts since the last call.
PmpiCounts take_pmpi_counts();

}  // namespace zeropp::test
