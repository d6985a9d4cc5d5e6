// A host Communicator for device memory: every message goes through pinned host memory, so that
// ranks may share a GPU and MPI needs to know nothing of it. Starting an operation waits for the
// caller's stream (what is sent has to be there); Work::wait() copies what arrived back on that
// stream without waiting for it. Owns the host communicator, which counts the bytes, and the
// pinned memory. Operations do not outlive it.
#pragma once

#include <memory>

#include "lib/comm/communicator.hpp"
#include "lib/comm/staging_pool.hpp"
#include "lib/device/device.hpp"

namespace zeropp::comm {

class StagedCommunicator final : public Communicator {
 public:
  /// `staging`: the kind of host memory that messages go through.
  StagedCommunicator(std::unique_ptr<Communicator> host, const Device& device,
                     MemoryKind staging = MemoryKind::pinned);

  [[nodiscard]] std::unique_ptr<Work> exchange(std::span<const Send> sends,
                                               std::span<const Receive> receives,
                                               StreamHandle stream, Bytes& sent) override;
  [[nodiscard]] std::unique_ptr<Work> native_collective(const NativeCall& call,
                                                        StreamHandle stream) override;

 private:
  class Staging;
  class StagedWork;

  std::unique_ptr<Communicator> host_;
  const Runtime& runtime_;
  StagingPool pool_;
};

}  // namespace zeropp::comm
