// MPI requests in flight.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "lib/base/poll.hpp"
#include "lib/comm/communicator.hpp"
#include "lib/comm/in_flight.hpp"

namespace zeropp::comm {

class MpiWork final : public Work {
 public:
  enum class Kind { point_to_point, collective };
  /// `number`: of the operation in the flight record.
  MpiWork(Kind kind, std::vector<MPI_Request> requests, std::uint64_t number)
      : kind_(kind), requests_(std::move(requests)), number_(number) {}
  /// Unwinding the stack, it withdraws its messages instead of waiting for ranks that may be gone.
  /// The memory goes with the stack: what is under way already is waited for, a second at most.
  ~MpiWork() override;
  MpiWork(const MpiWork&) = delete;
  MpiWork& operator=(const MpiWork&) = delete;

  void wait(StreamHandle stream) override;

 private:
  void complete_within(Seconds deadline);

  Kind kind_;
  std::vector<MPI_Request> requests_;
  std::uint64_t number_;
  InFlight in_flight_;
};

}  // namespace zeropp::comm
