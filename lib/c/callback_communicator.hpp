// The Communicator whose bytes travel by zpp_callbacks.exchange. Messages to the own rank are
// copied here, on the stream; the others are handed over with the ranks of the whole communicator
// as peers. Callbacks have no vendor's collectives: they are refused, as plans of the vendor's
// algorithms are.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "lib/c/zeropp.h"
#include "lib/comm/communicator.hpp"
#include "lib/device/device.hpp"

namespace zeropp::c {

/// A group of ranks of the whole communicator, as one of them sees it.
struct Members {
  comm::Membership member;
  std::vector<int> ranks;  ///< of the whole communicator, by rank in the group
};

class CallbackCommunicator final : public comm::Communicator {
 public:
  /// `callbacks` outlives it.
  CallbackCommunicator(Members members, const zpp_callbacks& callbacks, const Device& device);

  [[nodiscard]] std::unique_ptr<comm::Work> exchange(std::span<const comm::Send> sends,
                                                     std::span<const comm::Receive> receives,
                                                     StreamHandle stream,
                                                     comm::Bytes& sent) override;
  [[nodiscard]] std::unique_ptr<comm::Work> native_collective(const comm::NativeCall& call,
                                                              StreamHandle stream) override;

 private:
  [[nodiscard]] int whole_rank(int peer) const { return ranks_.at(static_cast<std::size_t>(peer)); }
  /// Hands messages to and from other ranks over to the callback.
  void hand_over(std::span<const zpp_message> sends, std::span<const zpp_message> receives,
                 StreamHandle stream);

  std::vector<int> ranks_;  ///< of the whole communicator, by rank in the group
  const zpp_callbacks& callbacks_;
  const Runtime& runtime_;
};

}  // namespace zeropp::c
