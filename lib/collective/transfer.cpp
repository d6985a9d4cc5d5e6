#include "lib/collective/transfer.hpp"

#include <vector>

namespace zeropp::collective {

namespace {
int next_of(const comm::Communicator& group) { return (group.rank() + 1) % group.size(); }
}  // namespace

std::unique_ptr<comm::Work> exchange_pieces(Meter& meter, comm::Communicator& group,
                                            const std::byte* out, std::byte* in, std::size_t bytes,
                                            StreamHandle stream) {
  return meter.counted(
      [&](comm::Bytes& sent) { return group.exchange_equal(out, in, bytes, stream, sent); });
}

std::unique_ptr<comm::Work> share_piece(Meter& meter, comm::Communicator& group, std::byte* pieces,
                                        std::size_t stride, std::size_t bytes,
                                        StreamHandle stream) {
  return meter.counted([&](comm::Bytes& sent) {
    return group.all_gather_in_place(pieces, stride, bytes, stream, sent);
  });
}

std::unique_ptr<comm::Work> ring_step(Meter& meter, comm::Communicator& group, const std::byte* out,
                                      std::byte* in, std::size_t bytes, StreamHandle stream) {
  const comm::Send send{out, bytes, next_of(group)};
  const comm::Receive receive{in, bytes, (group.rank() + group.size() - 1) % group.size()};
  return meter.counted([&](comm::Bytes& sent) {
    return group.exchange({&send, 1}, {&receive, 1}, stream, sent);
  });
}

}  // namespace zeropp::collective
