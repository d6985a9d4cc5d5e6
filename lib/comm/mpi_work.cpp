#include "lib/comm/mpi_work.hpp"

#include "lib/comm/flight_record.hpp"
#include "lib/comm/mpi_check.hpp"

namespace zeropp::comm {

MpiWork::~MpiWork() {
  if (in_flight_.is_complete() || !in_flight_.unwinding()) return;
  if (kind_ == Kind::collective) return;  // MPI offers no way to withdraw one
  for (MPI_Request& request : requests_) {
    if (request == MPI_REQUEST_NULL) continue;
    MPI_Cancel(&request);
    MPI_Request_free(&request);
  }
}

void MpiWork::wait(StreamHandle /*stream*/) {
  in_flight_.complete();
  const Waiting waiting(number_);
  // One by one: MPI_Waitall would hide which error it was behind MPI_ERR_IN_STATUS.
  for (MPI_Request& request : requests_) check(MPI_Wait(&request, MPI_STATUS_IGNORE));
}

}  // namespace zeropp::comm
