#include "lib/comm/mpi_work.hpp"

#include <cstdio>

#include "lib/comm/mpi_check.hpp"

namespace zeropp::comm {

MpiWork::~MpiWork() {
  if (waited_) return;
  if (std::uncaught_exceptions() <= exceptions_) {
    std::fputs("zeropp: an operation in flight was dropped: call Work::wait() first\n", stderr);
    std::terminate();
  }
  if (kind_ == Kind::collective) return;  // MPI offers no way to withdraw one
  for (MPI_Request& request : requests_) {
    if (request == MPI_REQUEST_NULL) continue;
    MPI_Cancel(&request);
    MPI_Request_free(&request);
  }
}

void MpiWork::wait() {
  waited_ = true;
  // One by one: MPI_Waitall would hide which error it was behind MPI_ERR_IN_STATUS.
  for (MPI_Request& request : requests_) check(MPI_Wait(&request, MPI_STATUS_IGNORE));
}

}  // namespace zeropp::comm
