#include "lib/collective/transfer.hpp"

#include <vector>

namespace zeropp::collective {

namespace {
std::size_t index_of(int rank) { return static_cast<std::size_t>(rank); }
int next_of(const comm::Communicator& group) { return (group.rank() + 1) % group.size(); }
}  // namespace

std::unique_ptr<comm::Work> swap_pieces(Meter& meter, comm::Communicator& group,
                                        const std::byte* out, std::byte* in, std::size_t bytes,
                                        StreamHandle stream) {
  return meter.counted([&](comm::Bytes& sent) { return group.swap(out, in, bytes, stream, sent); });
}

std::unique_ptr<comm::Work> share_piece(Meter& meter, comm::Communicator& group, std::byte* pieces,
                                        std::size_t stride, std::size_t bytes,
                                        StreamHandle stream) {
  return meter.counted(
      [&](comm::Bytes& sent) { return group.share(pieces, stride, bytes, stream, sent); });
}

std::unique_ptr<comm::Work> ring_step(Meter& meter, comm::Communicator& group, const std::byte* out,
                                      std::byte* in, std::size_t bytes, StreamHandle stream) {
  const comm::Send send{out, bytes, next_of(group)};
  const comm::Receive receive{in, bytes, (group.rank() + group.size() - 1) % group.size()};
  return meter.counted([&](comm::Bytes& sent) {
    return group.exchange({&send, 1}, {&receive, 1}, stream, sent);
  });
}

comm::Bytes bytes_to_others(const comm::Communicator& group, std::size_t bytes) {
  comm::Bytes sum;
  for (int peer = 0; peer < group.size(); ++peer) sum.add(group.link_to(peer), bytes);
  return sum;
}

comm::Bytes bytes_along_ring(const comm::Communicator& group, std::size_t bytes) {
  comm::Bytes sum;
  sum.add(group.link_to(next_of(group)), index_of(group.size() - 1) * bytes);
  return sum;
}

}  // namespace zeropp::collective
