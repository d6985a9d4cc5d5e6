#include "lib/comm/lifeline.hpp"

#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <span>
#include <utility>

namespace zeropp::comm {

static_assert(std::is_trivially_copyable_v<LifeMessage>);

Lifeline::Lifeline(int descriptor, std::string peer_host)
    : descriptor_(descriptor), peer_host_(std::move(peer_host)) {}

Lifeline::Lifeline(Lifeline&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)),
      peer_host_(std::move(other.peer_host_)),
      outgoing_(std::move(other.outgoing_)),
      incoming_(std::move(other.incoming_)),
      over_(other.over_) {}

Lifeline& Lifeline::operator=(Lifeline&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  std::swap(peer_host_, other.peer_host_);
  std::swap(outgoing_, other.outgoing_);
  std::swap(incoming_, other.incoming_);
  std::swap(over_, other.over_);
  return *this;
}

Lifeline::~Lifeline() { close(); }

void Lifeline::close() {
  if (descriptor_ >= 0) ::close(std::exchange(descriptor_, -1));
}

void Lifeline::send(const LifeMessage& message) {
  if (descriptor_ < 0 || over_) return;
  // The newest messages are dropped for a rank that reads nothing for long (a debugger).
  constexpr std::size_t kMostQueued = std::size_t{64} * sizeof(LifeMessage);
  if (outgoing_.size() < kMostQueued) {
    const auto bytes = std::as_bytes(std::span(&message, 1));
    outgoing_.insert(outgoing_.end(), bytes.begin(), bytes.end());
  }
  const ssize_t sent =
      ::send(descriptor_, outgoing_.data(), outgoing_.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  // Errors show when it is read from.
  if (sent > 0) outgoing_.erase(outgoing_.begin(), outgoing_.begin() + sent);
}

std::optional<LifeMessage> Lifeline::receive() {
  while (descriptor_ >= 0 && !over_ && incoming_.size() < sizeof(LifeMessage)) {
    std::array<std::byte, 4096> bytes;
    const ssize_t count = ::recv(descriptor_, bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) break;
    over_ = count <= 0;
    if (count > 0) incoming_.insert(incoming_.end(), bytes.begin(), bytes.begin() + count);
  }
  if (incoming_.size() < sizeof(LifeMessage)) return std::nullopt;
  LifeMessage message;
  std::memcpy(&message, incoming_.data(), sizeof message);
  incoming_.erase(incoming_.begin(), incoming_.begin() + sizeof message);
  message.state.operation.back() = '\0';
  message.state.group.back() = '\0';
  return message;
}

void Lifeline::finish_sending() {
  if (descriptor_ >= 0) ::shutdown(descriptor_, SHUT_WR);
}

}  // namespace zeropp::comm
