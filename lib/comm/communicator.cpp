#include "lib/comm/communicator.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "lib/base/error.hpp"

namespace zeropp::comm {

GroupShape Communicator::shape() const {
  GroupShape shape{.name = name(), .size = static_cast<std::size_t>(size())};
  for (int peer = 0; peer < size(); ++peer) {
    if (link_to(peer) == LinkClass::intra_node) ++shape.node_peers;
  }
  shape.next = link_to((rank() + 1) % size());
  return shape;
}

Communicator::Messages Communicator::equal_pieces(const std::byte* out, std::byte* in,
                                                  std::size_t bytes) const {
  Messages messages;
  for (int peer = 0; peer < size(); ++peer) {
    const std::size_t first = static_cast<std::size_t>(peer) * bytes;
    messages.sends.push_back({out + first, bytes, peer});
    messages.receives.push_back({in + first, bytes, peer});
  }
  return messages;
}

std::unique_ptr<Work> Communicator::exchange_equal(const std::byte* out, std::byte* in,
                                                   std::size_t bytes, StreamHandle stream,
                                                   Bytes& sent) {
  const Messages messages = equal_pieces(out, in, bytes);
  return exchange(messages.sends, messages.receives, stream, sent);
}

std::unique_ptr<Work> Communicator::all_gather_in_place(std::byte* pieces, std::size_t stride,
                                                        std::size_t bytes, StreamHandle stream,
                                                        Bytes& sent) {
  std::vector<Send> sends;
  std::vector<Receive> receives;
  const std::byte* const own = pieces + static_cast<std::size_t>(rank()) * stride;
  for (int peer = 0; peer < size(); ++peer) {
    if (peer == rank()) continue;
    sends.push_back({own, bytes, peer});
    receives.push_back({pieces + static_cast<std::size_t>(peer) * stride, bytes, peer});
  }
  return exchange(sends, receives, stream, sent);
}

std::vector<std::pair<Send, Receive>> self_messages(std::span<const Send> sends,
                                                    std::span<const Receive> receives, int self) {
  std::vector<std::pair<Send, Receive>> pairs;
  auto receive = receives.begin();
  for (const Send& send : sends) {
    if (send.peer != self) continue;
    receive = std::find_if(receive, receives.end(),
                           [&](const Receive& candidate) { return candidate.peer == self; });
    if (receive == receives.end() || receive->bytes != send.bytes) {
      throw Error(ExitCode::environment,
                  fmt::format("{} bytes to the own rank have no receive of that size", send.bytes));
    }
    if (send.bytes > 0) pairs.emplace_back(send, *receive);
    ++receive;
  }
  return pairs;
}

}  // namespace zeropp::comm
