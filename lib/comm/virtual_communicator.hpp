// The Communicator of virtual ranks (virtual_ranks.hpp): messages are copies between the ranks'
// memory, on the host or on one GPU. The rank that posts the later side of a message enqueues its
// copy, on its own stream, after an event of the other rank's: so a rank
// receives while the sender does something else. Work::wait() lets other ranks run until they have
// posted, and makes the stream wait for the copies.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "lib/comm/communicator.hpp"
#include "lib/comm/virtual_mail.hpp"
#include "lib/device/device.hpp"

namespace zeropp::comm {

class VirtualCommunicator final : public Communicator {
 public:
  VirtualCommunicator(std::string name, VirtualMember mail, std::vector<LinkClass> links,
                      const Device& device);

  [[nodiscard]] std::unique_ptr<Work> exchange(std::span<const Send> sends,
                                               std::span<const Receive> receives,
                                               StreamHandle stream, Bytes& sent) override;
  /// Throws std::logic_error: there is no vendor, and configurations that ask for one are refused.
  [[nodiscard]] std::unique_ptr<Work> native_collective(const NativeCall& call,
                                                        StreamHandle stream) override;

 private:
  VirtualMember mail_;
  const Runtime& runtime_;
};

}  // namespace zeropp::comm
