// The Communicator for host memory, over MPI. Operations run inline on the host stream: requests
// start at once and complete in Work::wait(). Owns its MPI communicator. Every exchange has the
// next tag of its communicator, so several can be in flight. Throws Error(environment) on MPI's
// errors and on memory that is not on the host.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "lib/comm/communicator.hpp"
#include "lib/comm/flight_record.hpp"
#include "lib/comm/mpi_check.hpp"

namespace zeropp::comm {

class MpiCommunicator final : public Communicator {
 public:
  /// `links`: the link class to every rank of `handle`'s group. `max_message_bytes` is the same on
  /// all ranks; longer messages are split.
  MpiCommunicator(std::string name, CommHandle handle, std::vector<LinkClass> links,
                  std::size_t max_message_bytes);

  [[nodiscard]] std::unique_ptr<Work> exchange(std::span<const Send> sends,
                                               std::span<const Receive> receives,
                                               StreamHandle stream, Bytes& sent) override;
  [[nodiscard]] std::unique_ptr<Work> native_collective(const NativeCall& call,
                                                        StreamHandle stream) override;

 private:
  int next_tag();
  [[nodiscard]] MPI_Op sum_of(Dtype dtype) const;
  /// Starts a native collective; returns MPI's status. `count`: elements of a part.
  int start(const NativeCall& call, int count, MPI_Request* request) const;

  GroupLog log_;
  CommHandle handle_;
  std::size_t max_message_bytes_;
  OpHandle sum_bf16_;
  OpHandle sum_fp16_;
  int tag_ = 0;
  int largest_tag_ = 32767;
};

}  // namespace zeropp::comm
