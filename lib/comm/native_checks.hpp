// What the vendor's collectives are given, checked before anything is started. All throw
// Error(environment).
#pragma once

#include <cstddef>

#include "kernels/core/view.hpp"

namespace zeropp::comm {

/// `whole` holds one part of `part` elements a rank.
void require_equal_parts(std::size_t whole, std::size_t part, int ranks);

/// `part_elements` as a count of MPI's collectives. Counts are int, and some libraries add them up
/// in int as well: the whole buffer has to fit, not only one rank's part.
int mpi_count(std::size_t part_elements, std::size_t total_elements);

/// Memory that `communicator` reaches: the GPU's, or the host's (pinned or not).
void require_device_memory(const ConstView& view, const char* communicator);
void require_host_memory(const ConstView& view, const char* communicator);

}  // namespace zeropp::comm
