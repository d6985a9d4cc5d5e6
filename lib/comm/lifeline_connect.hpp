// Connection of the ranks of a job by lifelines.
#pragma once

#include <mpi.h>

#include <vector>

#include "lib/comm/lifeline.hpp"

namespace zeropp::comm {

/// Connects the ranks of `comm`. Returns on rank 0 its connections to ranks 1, 2, ..., on the
/// others the one to rank 0; an empty list on all ranks where any connection takes more than 20
/// seconds. Collective.
std::vector<Lifeline> connect_lifelines(MPI_Comm comm);

}  // namespace zeropp::comm
