#include "lib/comm/mpi_work.hpp"

#include "lib/base/poll.hpp"
#include "lib/comm/flight_record.hpp"
#include "lib/comm/mpi_check.hpp"

namespace zeropp::comm {

namespace {

/// Time for requests that cannot be withdrawn any more: either the ranks at their other ends are in
/// MPI too, or nobody answers them, and then nothing is written.
constexpr Seconds kWithdrawal{1};

}  // namespace

MpiWork::~MpiWork() {
  if (in_flight_.is_complete() || !in_flight_.unwinding()) return;
  // MPI offers no way to withdraw a collective, nor to free its request before it is complete.
  const bool can_withdraw = kind_ == Kind::point_to_point;
  for (MPI_Request& request : requests_) {
    if (can_withdraw && request != MPI_REQUEST_NULL) MPI_Cancel(&request);
  }
  complete_within(kWithdrawal);
  for (MPI_Request& request : requests_) {
    if (can_withdraw && request != MPI_REQUEST_NULL) MPI_Request_free(&request);
  }
}

void MpiWork::complete_within(Seconds deadline) {
  const int count = static_cast<int>(requests_.size());
  (void)poll(
      [&](Seconds /*waited*/) {
        int done = 0;
        const int status = MPI_Testall(count, requests_.data(), &done, MPI_STATUSES_IGNORE);
        if (status != MPI_SUCCESS) return Progress::failed;
        return done != 0 ? Progress::done : Progress::pending;
      },
      deadline);
}

void MpiWork::wait(StreamHandle /*stream*/) {
  in_flight_.complete();
  const Waiting waiting(number_);
  // Requests are waited for one by one: MPI_Waitall would hide which error it was behind
  // MPI_ERR_IN_STATUS.
  for (MPI_Request& request : requests_) check(MPI_Wait(&request, MPI_STATUS_IGNORE));
}

}  // namespace zeropp::comm
