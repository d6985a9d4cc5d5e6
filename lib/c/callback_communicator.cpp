#include "lib/c/callback_communicator.hpp"

#include <fmt/format.h>

#include <utility>

#include "lib/base/error.hpp"
#include "lib/c/error_guard.hpp"
#include "lib/comm/communicator.hpp"
#include "lib/device/stream.hpp"

namespace zeropp::c {

namespace {

/// Work that a callback enqueued: on the stream that it was started on it is over for all that
/// follows.
class EnqueuedWork final : public comm::Work {
 public:
  EnqueuedWork(const Runtime& runtime, StreamHandle stream) : runtime_(runtime), stream_(stream) {}

  void wait(StreamHandle stream) override {
    if (stream.native == stream_.native) return;
    Event reached;
    Stream::borrow(runtime_, stream_).record(reached);
    Stream::borrow(runtime_, stream).wait(reached);
  }

 private:
  const Runtime& runtime_;
  StreamHandle stream_;
};

}  // namespace

CallbackCommunicator::CallbackCommunicator(Members members, const zpp_callbacks& callbacks,
                                           const Device& device)
    : comm::Communicator(std::move(members.member)),
      ranks_(std::move(members.ranks)),
      callbacks_(callbacks),
      runtime_(*device.runtime) {}

void CallbackCommunicator::hand_over(std::span<const zpp_message> sends,
                                     std::span<const zpp_message> receives, StreamHandle stream) {
  if (sends.empty() && receives.empty()) return;
  const int status = callbacks_.exchange(callbacks_.context, sends.data(), sends.size(),
                                         receives.data(), receives.size(), stream.native);
  if (status == 0) return;
  throw CallbackFailure(fmt::format(
      "exchange in group '{}', rank {} of the communicator, {} sends and {} receives: the callback "
      "returned {}: look for what it reported",
      name(), whole_rank(rank()), sends.size(), receives.size(), status));
}

std::unique_ptr<comm::Work> CallbackCommunicator::exchange(std::span<const comm::Send> sends,
                                                           std::span<const comm::Receive> receives,
                                                           StreamHandle stream, comm::Bytes& sent) {
  const Stream copies = Stream::borrow(runtime_, stream);
  for (const auto& [send, receive] : comm::self_messages(sends, receives, rank())) {
    copies.copy(receive.data, send.data, send.bytes);
  }
  std::vector<zpp_message> out;
  std::vector<zpp_message> in;
  for (const comm::Send& send : sends) {
    if (send.peer == rank() || send.bytes == 0) continue;
    // The C structure serves both directions; what is sent is only read.
    out.push_back({const_cast<std::byte*>(send.data), send.bytes, whole_rank(send.peer)});
    sent.add(link_to(send.peer), send.bytes);
  }
  for (const comm::Receive& receive : receives) {
    if (receive.peer == rank() || receive.bytes == 0) continue;
    in.push_back({receive.data, receive.bytes, whole_rank(receive.peer)});
  }
  hand_over(out, in, stream);
  return std::make_unique<EnqueuedWork>(runtime_, stream);
}

std::unique_ptr<comm::Work> CallbackCommunicator::native_collective(const comm::NativeCall& call,
                                                                    StreamHandle /*stream*/) {
  throw Error(ExitCode::environment,
              fmt::format("group '{}': callbacks move messages and have no {} of their own: "
                          "choose an algorithm other than the vendor's, or ZPP_NCCL",
                          name(), comm::name_of(call.op)));
}

}  // namespace zeropp::c
