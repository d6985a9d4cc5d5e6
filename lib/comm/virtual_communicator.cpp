#include "lib/comm/virtual_communicator.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "lib/base/error.hpp"
#include "lib/comm/in_flight.hpp"

namespace zeropp::comm {

namespace {

/// A rank's part of an exchange.
struct Post {
  std::vector<Send> sends;
  std::vector<Receive> receives;
  Event ready;                                 ///< on the rank's stream: data are there
  std::vector<std::shared_ptr<Event>> copied;  ///< messages from and to this rank are done
  bool withdrawn = false;                      ///< memory is gone
};
using SharedPost = std::shared_ptr<Post>;

const SharedPost* post_of(const Posts& posts, int rank) {
  return std::any_cast<SharedPost>(&posts[static_cast<std::size_t>(rank)]);
}

/// Enqueues the copies of all messages from rank `from` to rank `to`.
void copy(const Post& sender, int from, const Post& receiver, int to, const Stream& stream) {
  const auto mismatch = [&] {
    return Error(ExitCode::environment,
                 fmt::format("virtual rank {} of a group sends rank {} other messages than that "
                             "receives",
                             from, to));
  };
  auto receive = receiver.receives.begin();
  const auto next = [&](auto at) {
    return std::find_if(at, receiver.receives.end(),
                        [&](const Receive& each) { return each.peer == from && each.bytes > 0; });
  };
  for (const Send& send : sender.sends) {
    if (send.peer != to || send.bytes == 0) continue;
    receive = next(receive);
    if (receive == receiver.receives.end() || receive->bytes != send.bytes) throw mismatch();
    stream.copy(receive->data, send.data, send.bytes);
    ++receive;
  }
  if (next(receive) != receiver.receives.end()) throw mismatch();
}

class VirtualWork final : public Work {
 public:
  VirtualWork(const VirtualMember& member, const Runtime& runtime, std::shared_ptr<Posts> posts,
              SharedPost own)
      : member_(member), runtime_(runtime), posts_(std::move(posts)), own_(std::move(own)) {}
  /// Unwinding the stack, it takes its messages back: their memory goes with the stack.
  ~VirtualWork() override {
    if (!in_flight_.is_complete() && in_flight_.unwinding()) own_->withdrawn = true;
  }
  VirtualWork(const VirtualWork&) = delete;
  VirtualWork& operator=(const VirtualWork&) = delete;

  void wait(StreamHandle handle) override {
    in_flight_.complete();
    const auto has_posted = [&](const auto& message) {
      return message.bytes == 0 || post_of(*posts_, message.peer) != nullptr;
    };
    member_.wait([&] {
      return std::ranges::all_of(own_->sends, has_posted) &&
             std::ranges::all_of(own_->receives, has_posted);
    });
    const Stream stream = Stream::borrow(runtime_, handle);
    for (const auto& event : own_->copied) stream.wait(*event);
  }

 private:
  const VirtualMember& member_;
  const Runtime& runtime_;
  std::shared_ptr<Posts> posts_;
  SharedPost own_;
  InFlight in_flight_;
};

}  // namespace

VirtualCommunicator::VirtualCommunicator(std::string name, VirtualMember mail,
                                         std::vector<LinkClass> links, const Device& device)
    : Communicator({std::move(name), static_cast<int>(mail.rank()), std::move(links)}),
      mail_(std::move(mail)),
      runtime_(*device.runtime) {}

std::unique_ptr<Work> VirtualCommunicator::exchange(std::span<const Send> sends,
                                                    std::span<const Receive> receives,
                                                    StreamHandle handle, Bytes& sent) {
  const Stream stream = Stream::borrow(runtime_, handle);
  const auto own = std::make_shared<Post>();
  own->sends.assign(sends.begin(), sends.end());
  own->receives.assign(receives.begin(), receives.end());
  stream.record(own->ready);
  const std::shared_ptr<Posts> posts = mail_.post(own);
  const auto copied = std::make_shared<Event>();
  for (int peer = 0; peer < size(); ++peer) {
    const SharedPost* const other = post_of(*posts, peer);
    if (other == nullptr || (*other)->withdrawn) continue;
    if (peer != rank()) stream.wait((*other)->ready);
    copy(*own, rank(), **other, peer, stream);
    if (peer == rank()) continue;
    copy(**other, peer, *own, rank(), stream);
    (*other)->copied.push_back(copied);
  }
  stream.record(*copied);
  own->copied.push_back(copied);
  for (const Send& send : sends) {
    if (send.peer != rank()) sent.add(link_to(send.peer), send.bytes);
  }
  return std::make_unique<VirtualWork>(mail_, runtime_, posts, own);
}

std::unique_ptr<Work> VirtualCommunicator::native_collective(const NativeCall& call,
                                                             StreamHandle /*stream*/) {
  throw std::logic_error(fmt::format("virtual ranks have no vendor's {}", name_of(call.op)));
}

}  // namespace zeropp::comm
