// Rendezvous of rank 0 and the others. Rank 0 listens on a port that the kernel chooses, and tells
// all its addresses over MPI, with a secret that both sides show; nothing listens any more once all
// have come.
#include "lib/comm/lifeline_connect.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <list>
#include <random>
#include <string>
#include <utility>

#include "lib/base/host.hpp"
#include "lib/comm/mpi_check.hpp"

namespace zeropp::comm {

namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::seconds kAllDeadline{20};  ///< of all connections together
constexpr std::chrono::seconds kOneDeadline{3};   ///< of one address
constexpr std::size_t kAddresses = 16;

using Secret = std::array<std::uint32_t, 4>;
using Host = std::array<char, 64>;

struct Invitation {
  Secret secret{};  ///< that who comes shows
  Secret answer{};  ///< that it gets
  std::uint16_t port = 0;
  std::uint16_t count = 0;
  std::array<std::uint32_t, kAddresses> addresses{};  ///< IPv4, of the network's byte order
  Host host{};
};

struct Hello {
  Secret secret{};
  std::int32_t rank = 0;
  Host host{};
};

Secret draw_secret() {
  std::random_device device;
  Secret secret;
  for (std::uint32_t& word : secret) word = device();
  return secret;
}

Host own_host() {
  Host host{};
  const std::string name = host_name();
  std::copy_n(name.begin(), std::min(name.size(), host.size() - 1), host.begin());
  return host;
}

/// A descriptor until it is taken.
class Socket {
 public:
  explicit Socket(int descriptor) : descriptor_(descriptor) {}
  ~Socket() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  [[nodiscard]] int get() const { return descriptor_; }
  int take() { return std::exchange(descriptor_, -1); }

 private:
  int descriptor_;
};

int open_socket(int flags = 0) {
  return ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | flags, IPPROTO_TCP);
}

bool is_ready(int descriptor, short events, Clock::time_point end) {
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now());
    if (left.count() <= 0) return false;
    pollfd item{descriptor, events, 0};
    const int found = ::poll(&item, 1, static_cast<int>(left.count()));
    if (found > 0) return true;
    if (found < 0 && errno != EINTR) return false;
  }
}

template <class Value>
bool receive_whole(int descriptor, Value& value, Clock::time_point end) {
  auto* const bytes = reinterpret_cast<char*>(&value);
  for (std::size_t done = 0; done < sizeof value;) {
    if (!is_ready(descriptor, POLLIN, end)) return false;
    const ssize_t count = ::recv(descriptor, bytes + done, sizeof value - done, MSG_DONTWAIT);
    if (count == 0 || (count < 0 && errno != EINTR && errno != EAGAIN)) return false;
    if (count > 0) done += static_cast<std::size_t>(count);
  }
  return true;
}

/// Sends a value that is short enough for an empty buffer of the kernel.
template <class Value>
bool send_whole(int descriptor, const Value& value) {
  return ::send(descriptor, &value, sizeof value, MSG_NOSIGNAL) ==
         static_cast<ssize_t>(sizeof value);
}

/// Makes the connection send every message at once: one that waits in a queue would come too late,
/// and nothing is large.
void send_at_once(int descriptor) {
  const int yes = 1;
  (void)::setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
}

void add_addresses(Invitation& invitation) {
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0) return;
  for (const ifaddrs* each = first; each != nullptr; each = each->ifa_next) {
    if (each->ifa_addr == nullptr || each->ifa_addr->sa_family != AF_INET) continue;
    if (invitation.count == kAddresses) break;
    const auto* address = reinterpret_cast<const sockaddr_in*>(each->ifa_addr);
    invitation.addresses.at(invitation.count++) = address->sin_addr.s_addr;
  }
  ::freeifaddrs(first);
}

/// Listens, and fills port and addresses; where that fails, port 0.
int listen_for(Invitation& invitation, int ranks) {
  Socket listener(open_socket(SOCK_NONBLOCK));
  sockaddr_in own{};
  own.sin_family = AF_INET;
  own.sin_addr.s_addr = htonl(INADDR_ANY);
  socklen_t length = sizeof own;
  auto* const address = reinterpret_cast<sockaddr*>(&own);
  if (listener.get() < 0 || ::bind(listener.get(), address, length) != 0 ||
      ::listen(listener.get(), ranks) != 0 ||
      ::getsockname(listener.get(), address, &length) != 0) {
    return -1;
  }
  invitation.port = own.sin_port;
  add_addresses(invitation);
  return listener.take();
}

/// Somebody who has connected, until it is known who.
class Guest {
 public:
  explicit Guest(int descriptor) : socket_(descriptor) {}
  [[nodiscard]] int descriptor() const { return socket_.get(); }
  [[nodiscard]] const Hello& hello() const { return hello_; }
  [[nodiscard]] bool is_whole() const { return done_ == sizeof hello_; }
  [[nodiscard]] bool is_gone() const { return gone_; }
  /// Takes what has come, and waits for nothing.
  void receive() {
    auto* const bytes = reinterpret_cast<char*>(&hello_);
    const ssize_t count = ::recv(socket_.get(), bytes + done_, sizeof hello_ - done_, MSG_DONTWAIT);
    if (count > 0) done_ += static_cast<std::size_t>(count);
    gone_ = count == 0 || (count < 0 && errno != EINTR && errno != EAGAIN);
    hello_.host.back() = '\0';
  }
  int take() { return socket_.take(); }

 private:
  Socket socket_;
  Hello hello_;
  std::size_t done_ = 0;
  bool gone_ = false;
};

/// The connections of ranks 1, 2, ...; some are not open where they did not come in time. A client
/// that says nothing, such as a port scanner, keeps nobody waiting.
std::vector<Lifeline> accept_all(int listener, const Invitation& invitation, int ranks) {
  std::vector<Lifeline> lines(static_cast<std::size_t>(ranks - 1));
  const std::size_t most_guests = lines.size() + 64;
  std::list<Guest> guests;
  const auto end = Clock::now() + kAllDeadline;
  const auto welcome = [&](Guest& guest) {
    const Hello& hello = guest.hello();
    if (hello.secret != invitation.secret || hello.rank < 1 || hello.rank >= ranks) return;
    send_at_once(guest.descriptor());
    if (!send_whole(guest.descriptor(), invitation.answer)) return;
    lines[static_cast<std::size_t>(hello.rank - 1)] = Lifeline(guest.take(), hello.host.data());
  };
  while (!std::ranges::all_of(lines, &Lifeline::is_open) && Clock::now() < end) {
    std::vector<pollfd> items{{listener, POLLIN, 0}};
    for (const Guest& guest : guests) items.push_back({guest.descriptor(), POLLIN, 0});
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now());
    if (::poll(items.data(), items.size(), static_cast<int>(left.count()) + 1) <= 0) continue;
    const int come = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
    if (come >= 0) guests.emplace_back(come);
    if (guests.size() > most_guests) guests.pop_front();
    for (Guest& guest : guests) {
      guest.receive();
      if (guest.is_whole()) welcome(guest);
    }
    guests.remove_if([](const Guest& guest) { return guest.is_whole() || guest.is_gone(); });
  }
  return lines;
}

bool connect_to(int descriptor, std::uint32_t host, std::uint16_t port) {
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_addr.s_addr = host;
  to.sin_port = port;
  if (::connect(descriptor, reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0) return true;
  if (errno != EINPROGRESS) return false;
  int error = 0;
  socklen_t length = sizeof error;
  return is_ready(descriptor, POLLOUT, Clock::now() + kOneDeadline) &&
         ::getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &error, &length) == 0 && error == 0;
}

/// Connects by the first address where rank 0 answers; loopback is tried only where it may be this
/// machine.
Lifeline find_rank_0(const Invitation& invitation, int rank) {
  const bool same_host = invitation.host == own_host();
  const auto end = Clock::now() + kAllDeadline;
  for (std::size_t i = 0; i < invitation.count && Clock::now() < end; ++i) {
    const std::uint32_t host = invitation.addresses.at(i);
    const bool loopback = ntohl(host) >> 24U == IN_LOOPBACKNET;
    if (loopback && !same_host) continue;
    Socket line(open_socket(SOCK_NONBLOCK));
    if (line.get() < 0 || !connect_to(line.get(), host, invitation.port)) continue;
    send_at_once(line.get());
    Secret answer{};
    if (!send_whole(line.get(), Hello{invitation.secret, rank, own_host()}) ||
        !receive_whole(line.get(), answer, end) || answer != invitation.answer) {
      continue;
    }
    return {line.take(), invitation.host.data()};
  }
  return {};
}

}  // namespace

std::vector<Lifeline> connect_lifelines(MPI_Comm comm) {
  int rank = 0;
  int ranks = 1;
  check(MPI_Comm_rank(comm, &rank));
  check(MPI_Comm_size(comm, &ranks));
  if (ranks == 1) return {};
  Invitation invitation;
  std::vector<Lifeline> lines;
  if (rank == 0) {
    invitation.secret = draw_secret();
    invitation.answer = draw_secret();
    invitation.host = own_host();
    const Socket listener(listen_for(invitation, ranks));
    check(MPI_Bcast(&invitation, sizeof invitation, MPI_BYTE, 0, comm));
    if (listener.get() >= 0) lines = accept_all(listener.get(), invitation, ranks);
  } else {
    check(MPI_Bcast(&invitation, sizeof invitation, MPI_BYTE, 0, comm));
    if (invitation.port != 0) lines.push_back(find_rank_0(invitation, rank));
  }
  int whole = !lines.empty() && std::ranges::all_of(lines, &Lifeline::is_open) ? 1 : 0;
  check(MPI_Allreduce(MPI_IN_PLACE, &whole, 1, MPI_INT, MPI_MIN, comm));
  if (whole == 0) lines.clear();
  return lines;
}

}  // namespace zeropp::comm
