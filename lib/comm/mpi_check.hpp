// Every MPI status goes through check(). Throws Error(environment) with MPI's own words and the
// place of the call: communicators carry MPI_ERRORS_RETURN.
#pragma once

#include <source_location>

namespace zeropp::comm {

void check(int mpi_status, std::source_location where = std::source_location::current());

}  // namespace zeropp::comm
