#include "lib/comm/watchdog.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <utility>

#include "lib/base/log.hpp"
#include "lib/base/poll.hpp"

namespace zeropp::comm {

namespace {

using Clock = std::chrono::steady_clock;
using Kind = LifeMessage::Kind;

constexpr Seconds kDefaultDeadline{600};
constexpr Seconds kSayDeadline{1};
std::atomic<double> deadline_seconds{kDefaultDeadline.count()};
std::atomic<bool> hears_others{false};

/// Number of looks for which a rank that knows that the job ends waits for somebody to end it.
constexpr int kLooksToObey = 20;

/// Signals are for the thread that does the work.
std::thread without_signals(std::function<void()> body) {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread thread(std::move(body));
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return thread;
}

}  // namespace

Watchdog::Watchdog(Setup setup) : setup_(std::move(setup)) {
  // A standard error that nobody reads, or that the thread which prints holds, may block for ever.
  if (!setup_.say) {
    setup_.say = [](const std::string& line) {
      (void)within(kSayDeadline, [line] {
        log::error(line);
        return true;
      });
    };
  }
  if (!setup_.end) setup_.end = [](ExitCode code) { ::_exit(static_cast<int>(code)); };
  for (Lifeline& line : setup_.lines) {
    const int rank = setup_.rank == 0 ? static_cast<int>(peers_.size()) + 1 : 0;
    peers_.push_back({.rank = rank, .line = std::move(line), .state = {}});
  }
  hears_others = !peers_.empty();
  wake_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  thread_ = without_signals([this] { run(); });
}

Watchdog::~Watchdog() {
  {
    const std::lock_guard lock(mutex_);
    leaving_ = true;
  }
  (void)::eventfd_write(wake_, 1);
  thread_.join();
  if (wake_ >= 0) ::close(wake_);
  hears_others = false;
}

void Watchdog::set_deadline(Seconds deadline) { deadline_seconds = deadline.count(); }
Seconds Watchdog::deadline() { return Seconds{deadline_seconds}; }

void Watchdog::set_folder(const std::filesystem::path& folder) {
  const std::lock_guard lock(mutex_);
  folder_ = folder;
}

void Watchdog::leave() {
  std::unique_lock lock(mutex_);
  goodbye_asked_ = true;
  (void)::eventfd_write(wake_, 1);
  (void)changed_.wait_for(lock, std::chrono::seconds(1), [&] { return goodbye_said_ || ended_; });
}

void Watchdog::failing(ExitCode code) {
  std::unique_lock lock(mutex_);
  failing_ = code;
  (void)::eventfd_write(wake_, 1);
  const bool to_be_ended = code == ExitCode::watchdog;
  (void)changed_.wait_for(lock, std::chrono::seconds(to_be_ended ? 20 : 1),
                          [&] { return ended_ || (failing_known_ && !to_be_ended); });
}

void Watchdog::wait_for_verdict() {
  // Longer than the kernel takes to close a dead rank's connections and rank 0 to tell all.
  if (hears_others) std::this_thread::sleep_for(std::chrono::seconds(2));
}

void Watchdog::run() {
  auto next = Clock::now() + setup_.look;
  while (!over_) {
    wait_for_news(next);
    std::optional<ExitCode> failing;
    bool goodbye = false;
    {
      const std::lock_guard lock(mutex_);
      if (leaving_) break;
      goodbye = goodbye_asked_;
      if (!failing_said_) failing = failing_;
      failing_said_ = failing_.has_value();
    }
    if (failing) {
      send_all(Kind::failed, *failing);
      if (setup_.rank == 0 || peers_.empty()) failing_is_known();
      for (Peer& peer : peers_) peer.explained = true;
      if (setup_.rank == 0 && *failing == ExitCode::watchdog) end_all("", *failing);
      if (peers_.empty() && *failing == ExitCode::watchdog) end_own("", *failing);
    }
    if (goodbye && !gone_) say_goodbye();
    if (!over_) hear();
    if (over_ || Clock::now() < next) continue;
    next = Clock::now() + setup_.look;
    look();
  }
  if (!over_) take_leave();
}

void Watchdog::wait_for_news(Clock::time_point until) {
  std::vector<pollfd> items{{wake_, POLLIN, 0}};
  for (const Peer& peer : peers_) {
    // A connection that is over always has news, so that it would keep the poll from waiting.
    if (!peer.line.is_open() || peer.line.is_over()) continue;
    items.push_back({peer.line.descriptor(), POLLIN, 0});
  }
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now());
  (void)::poll(items.data(), items.size(), static_cast<int>(std::max<long>(left.count() + 1, 0)));
  eventfd_t ignored = 0;
  (void)::eventfd_read(wake_, &ignored);
}

void Watchdog::hear() {
  for (Peer& peer : peers_) {
    while (const auto message = peer.line.receive()) {
      peer.silent = 0;
      hear(peer, *message);
      if (over_) return;
    }
    if (!peer.line.is_open() || !peer.line.is_over()) continue;
    peer.line.close();
    if (!peer.left && !peer.explained && !gone_) lost(peer, "died");
    if (over_) return;
  }
}

void Watchdog::hear(Peer& peer, const LifeMessage& message) {
  const auto code = static_cast<ExitCode>(message.code);
  switch (message.kind) {
    case Kind::beat:
      peer.state = message.state;
      break;
    case Kind::expired:
      peer.state = message.state;
      end_all(describe_expiry(peer.rank, peer.state), ExitCode::watchdog);
      break;
    case Kind::failed:
      explained(peer, code);
      break;
    case Kind::end:
      end_own("", code);
      break;
    case Kind::written:
      peer.written = true;
      break;
    case Kind::goodbye:
      peer.left = true;
      peer.line.close();
      break;
  }
}

void Watchdog::explained(Peer& peer, ExitCode code) {
  peer.explained = true;
  if (code == ExitCode::watchdog && setup_.rank == 0) return end_all("", code);
  if (looks_to_obey_ < 0) looks_to_obey_ = kLooksToObey;
  code_to_obey_ = code;
  // Rank 0 passes it on, also back: a launcher may kill it first, and nobody is to miss it then.
  if (setup_.rank == 0) send_all(Kind::failed, code);
  if (setup_.rank != 0) failing_is_known();
}

void Watchdog::failing_is_known() {
  {
    const std::lock_guard lock(mutex_);
    failing_known_ = true;
  }
  changed_.notify_all();
}

void Watchdog::send_all(Kind kind, ExitCode code) {
  const LifeMessage message{kind, static_cast<std::int32_t>(code), own_state()};
  for (Peer& peer : peers_) {
    if (!peer.left) peer.line.send(message);
  }
}

void Watchdog::look() {
  send_all(Kind::beat);
  for (Peer& peer : peers_) {
    if (gone_ || peer.left || peer.explained || ++peer.silent <= setup_.silent_looks) continue;
    if (deadline() <= Seconds{0}) continue;
    lost(peer, "does not answer any more: it is stopped, or its machine hangs");
    if (over_) return;
  }
  if (looks_to_obey_ >= 0) {
    if (looks_to_obey_-- == 0) end_own(own_line_, code_to_obey_);
    return;
  }
  look_at_deadline();
}

void Watchdog::look_at_deadline() {
  const auto waiting = setup_.record->waiting();
  const std::uint64_t number = waiting && !waiting->patient ? waiting->number : 0;
  watched_looks_ = number == watched_ ? watched_looks_ + 1 : 0;
  watched_ = number;
  if (number == 0 || deadline() <= Seconds{0}) return;
  if (watched_looks_ * Seconds(setup_.look) < deadline()) return;
  const RankState state = own_state();
  if (setup_.rank == 0 || peers_.empty() || peers_.front().left) {
    return end_all(describe_expiry(setup_.rank, state), ExitCode::watchdog);
  }
  // Rank 0 is told, since it knows what all others do.
  send_all(Kind::expired, ExitCode::watchdog);
  own_line_ = describe_expiry(setup_.rank, state);
  looks_to_obey_ = kLooksToObey;
  code_to_obey_ = ExitCode::watchdog;
}

void Watchdog::lost(Peer& peer, const std::string& how) {
  const std::string line = describe_death(peer, how);
  peer.written = true;  // nobody waits for it
  if (setup_.rank == 0) return end_all(line, ExitCode::watchdog);
  // Rank 0 itself: rank 1 says so, the others leave it the time to. Should rank 0 only have been
  // stopped, it hears that this is said.
  send_all(Kind::failed, ExitCode::watchdog);
  peer.line.close();
  peer.left = true;
  if (setup_.rank == 1) return end_own(line, ExitCode::watchdog);
  write_record(line);
  looks_to_obey_ = 2;
  code_to_obey_ = ExitCode::watchdog;
}

void Watchdog::say_goodbye() {
  send_all(Kind::goodbye);
  gone_ = true;
  {
    const std::lock_guard lock(mutex_);
    goodbye_said_ = true;
  }
  changed_.notify_all();
}

void Watchdog::take_leave() {
  if (!gone_) say_goodbye();
  for (Peer& peer : peers_) peer.line.finish_sending();
  // A connection that is closed with unread messages would lose what was sent last.
  const auto end = Clock::now() + std::chrono::seconds(2);
  const auto open = [](const Peer& peer) { return peer.line.is_open(); };
  while (std::ranges::any_of(peers_, open) && Clock::now() < end) {
    std::vector<pollfd> items;
    for (const Peer& peer : peers_) {
      if (peer.line.is_open()) items.push_back({peer.line.descriptor(), POLLIN, 0});
    }
    (void)::poll(items.data(), items.size(), 100);
    for (Peer& peer : peers_) {
      while (peer.line.receive()) {
      }
      if (peer.line.is_over()) peer.line.close();
    }
  }
}

}  // namespace zeropp::comm
