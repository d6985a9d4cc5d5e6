// ctest: name=comm_watchdog_idle program=own timeout=60
// The watchdog of rank 0 that waits for the others' flight records does not ask again and again
// for news on a connection that is over. The program's own poll() tells what is asked for.
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <condition_variable>
#include <ctime>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lib/comm/watchdog.hpp"

namespace zeropp::comm {
namespace {

/// The calls of poll() for one descriptor.
struct Asked {
  std::mutex mutex;
  std::condition_variable changed;
  int descriptor = -1;
  int times = 0;         ///< since it is over
  bool no_more = false;  ///< poll() was called without it
};
Asked asked;

/// Wake-ups of an operation that is over, beyond which the watchdog does not idle.
constexpr int kTooOften = 100;

void note(std::span<const pollfd> items) {
  const std::lock_guard lock(asked.mutex);
  if (asked.descriptor < 0) return;
  const bool there = std::ranges::find(items, asked.descriptor, &pollfd::fd) != items.end();
  asked.no_more = asked.no_more || !there;
  if (there) ++asked.times;
  asked.changed.notify_all();
}

}  // namespace
}  // namespace zeropp::comm

/// Replaces the C library's function.
extern "C" int poll(pollfd* items, nfds_t count, int milliseconds) {
  zeropp::comm::note({items, count});
  const timespec time{milliseconds / 1000, milliseconds % 1000 * 1'000'000L};
  return ::ppoll(items, count, milliseconds < 0 ? nullptr : &time, nullptr);
}

namespace zeropp::comm {
namespace {

/// One connection: rank 0's end, and the end that the test plays a rank on.
std::pair<int, int> connected() {
  std::array<int, 2> ends{};
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
  return {ends[0], ends[1]};
}

void send(int end, LifeMessage::Kind kind) {
  const LifeMessage message{kind, 0, {}};
  EXPECT_EQ(::send(end, &message, sizeof message, 0), static_cast<ssize_t>(sizeof message));
}

TEST(Watchdog, AsksNoMoreOnAConnectionThatIsOver) {
  const auto [of_1, rank_1] = connected();
  const auto [of_2, rank_2] = connected();
  std::vector<Lifeline> lines;
  lines.emplace_back(of_1, "host");
  lines.emplace_back(of_2, "host");
  FlightRecord record;
  std::optional<ExitCode> ended;
  {
    Watchdog watchdog({.rank = 0,
                       .ranks = 3,
                       .lines = std::move(lines),
                       .record = &record,
                       .silent_looks = 1'000'000,
                       .say =
                           [&, of_1 = of_1, rank_1 = rank_1](const std::string&) {
                             ::close(rank_1);  // it ends while the records are waited for
                             const std::lock_guard lock(asked.mutex);
                             asked.descriptor = of_1;
                           },
                       .end =
                           [&](ExitCode code) {
                             const std::lock_guard lock(asked.mutex);
                             ended = code;
                             asked.changed.notify_all();
                           }});
    send(rank_2, LifeMessage::Kind::expired);
    std::unique_lock lock(asked.mutex);
    asked.changed.wait(lock, [] { return asked.no_more || asked.times >= kTooOften; });
    EXPECT_TRUE(asked.no_more);
    lock.unlock();
    send(rank_2, LifeMessage::Kind::written);
    lock.lock();
    asked.changed.wait(lock, [&] { return ended.has_value(); });
    asked.descriptor = -1;
  }
  EXPECT_EQ(ended, ExitCode::watchdog);
  ::close(rank_2);
}

}  // namespace
}  // namespace zeropp::comm
