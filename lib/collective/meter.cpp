#include "lib/collective/meter.hpp"

namespace zeropp::collective {

void Meter::begin_run(std::string_view phase, std::uint64_t logical_bytes) {
  if (row_ == nullptr || keys_.phase != phase) {
    keys_.phase = phase;
    row_ = &recorder_.collective(keys_);
  }
  ++row_->calls;
  row_->logical_bytes += logical_bytes;
}

std::unique_ptr<comm::Work> Meter::exchange_equal(comm::Communicator& group, const std::byte* out,
                                                  std::byte* in, std::size_t bytes,
                                                  StreamHandle stream) {
  return counted(
      [&](comm::Bytes& sent) { return group.exchange_equal(out, in, bytes, stream, sent); });
}

std::unique_ptr<comm::Work> Meter::all_gather_in_place(comm::Communicator& group, std::byte* pieces,
                                                       std::size_t stride, std::size_t bytes,
                                                       StreamHandle stream) {
  return counted([&](comm::Bytes& sent) {
    return group.all_gather_in_place(pieces, stride, bytes, stream, sent);
  });
}

std::unique_ptr<comm::Work> Meter::ring_step(comm::Communicator& group, const std::byte* out,
                                             std::byte* in, std::size_t bytes,
                                             StreamHandle stream) {
  const comm::Send send{out, bytes, (group.rank() + 1) % group.size()};
  const comm::Receive receive{in, bytes, (group.rank() + group.size() - 1) % group.size()};
  return counted([&](comm::Bytes& sent) {
    return group.exchange({&send, 1}, {&receive, 1}, stream, sent);
  });
}

}  // namespace zeropp::collective
