// Connection of the ranks of a job by lifelines.
#pragma once

#include <mpi.h>

#include <vector>

#include "lib/comm/lifeline.hpp"

namespace zeropp::comm {

/// Rank 0: the connections to ranks 1, 2, ...; others: the one to rank 0. Collective over `comm`.
/// Where one cannot be made, within 20 seconds, no rank has any: empty.
std::vector<Lifeline> connect_lifelines(MPI_Comm comm);

}  // namespace zeropp::comm
