// End of a job by the watchdog: its words, and how it ends all ranks.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "lib/base/host.hpp"
#include "lib/base/log.hpp"
#include "lib/base/poll.hpp"
#include "lib/comm/flight_file.hpp"
#include "lib/comm/watchdog.hpp"

namespace zeropp::comm {

namespace {

using Clock = std::chrono::steady_clock;
using Kind = LifeMessage::Kind;

constexpr std::chrono::seconds kWriteDeadline{5};  ///< of all ranks' flight records
constexpr int kLooksToMention = 3;                 ///< of silence

template <std::size_t N>
void copy_to(std::array<char, N>& to, const char* text) {
  const std::string_view from = std::string_view(text).substr(0, N - 1);
  *std::ranges::copy(from, to.begin()).out = '\0';
}

/// "exchange 18 of group world"
std::string describe(const RankState& state) {
  if (state.begun == 0) return "no operation yet";
  return fmt::format("{} {} of group {}", state.operation.data(), state.sequence,
                     state.group.data());
}

}  // namespace

RankState Watchdog::own_state() const {
  RankState state;
  auto operation = setup_.record->waiting();
  state.waiting = operation ? 1 : 0;
  if (!operation) operation = setup_.record->newest();
  if (!operation) return state;
  state.begun = 1;
  state.sequence = operation->sequence;
  state.seconds = Seconds(Clock::now() - operation->changed).count();
  copy_to(state.operation, operation->name);
  copy_to(state.group, operation->group);
  return state;
}

std::string Watchdog::who(int rank) const {
  if (rank == setup_.rank) return fmt::format("rank {} on {}", rank, host_name());
  const auto peer = std::ranges::find(peers_, rank, &Peer::rank);
  return fmt::format("rank {} on {}", rank,
                     peer == peers_.end() ? "another host" : peer->line.peer_host());
}

std::string Watchdog::where_records_are() {
  const std::lock_guard lock(mutex_);
  if (folder_.empty()) return "no folder for flight records is set";
  return fmt::format("what each rank did last is in {}",
                     (folder_ / "flight-record.*.json").string());
}

std::string Watchdog::describe_expiry(int rank, const RankState& state) {
  std::string others = "rank 0 does not answer";
  if (setup_.ranks == 1) others = "there is no other rank";
  if (setup_.rank == 0 && setup_.ranks > 1) others = describe_others(rank, state);
  return fmt::format("{} waits in {} for {:.1f} s, longer than --timeout: {}; {}", who(rank),
                     describe(state), state.seconds, others, where_records_are());
}

/// Describes the other ranks to rank 0. The ranks to look at come first: those that are silent,
/// then those that do not wait, then those that wait for something else.
std::string Watchdog::describe_others(int rank, const RankState& state) {
  std::vector<std::string> silent;
  std::vector<std::string> elsewhere;
  std::vector<std::string> waiting;
  const auto add = [&](int other, const RankState& its, int looks) {
    if (other == rank) return;
    if (looks >= kLooksToMention) {
      silent.push_back(fmt::format("{} is silent for {:.1f} s, its last was {}", who(other),
                                   (looks * Seconds(setup_.look)).count(), describe(its)));
    } else if (its.waiting == 0) {
      elsewhere.push_back(who(other) + " does not, its last was " + describe(its));
    } else if (describe(its) != describe(state)) {
      waiting.push_back(who(other) + " waits in " + describe(its));
    }
  };
  add(0, own_state(), 0);
  for (const Peer& peer : peers_) {
    if (!peer.left) add(peer.rank, peer.state, peer.silent);
  }
  std::vector<std::string> named = std::move(silent);
  named.insert(named.end(), elsewhere.begin(), elsewhere.end());
  named.insert(named.end(), waiting.begin(), waiting.end());
  constexpr std::size_t kMostNamed = 3;
  if (named.empty()) return "all others wait in it too: look for a lost message";
  if (named.size() > kMostNamed) {
    const std::string more = fmt::format("{} more elsewhere", named.size() - kMostNamed);
    named.resize(kMostNamed);
    named.push_back(more);
  }
  return fmt::format("{}", fmt::join(named, ", "));
}

std::string Watchdog::describe_death(const Peer& peer, const std::string& how) {
  const RankState own = own_state();
  return fmt::format(
      "{} {}; {}, and {} {} {}: look at the launcher's message, the memory and the log of its "
      "machine; {}",
      who(peer.rank), how,
      peer.state.begun == 0 ? "it was not heard of since it started"
                            : "it was last heard of in " + describe(peer.state),
      who(setup_.rank), own.waiting == 0 ? "was last in" : "waits in", describe(own),
      where_records_are());
}

void Watchdog::end_all(const std::string& line, ExitCode code) {
  if (!line.empty()) setup_.say(line);
  if (setup_.rank == 0) send_all(Kind::end, code);
  write_record(line);
  // A launcher kills who is left once the first rank has ended.
  const auto end = Clock::now() + kWriteDeadline;
  const auto writes = [](const Peer& peer) {
    return !peer.left && peer.line.is_open() && !peer.line.is_over() && !peer.written &&
           peer.silent < kLooksToMention;
  };
  while (setup_.rank == 0 && std::ranges::any_of(peers_, writes) && Clock::now() < end) {
    wait_for_news(Clock::now() + std::chrono::milliseconds(100));
    for (Peer& peer : peers_) {
      while (const auto message = peer.line.receive()) {
        peer.written = peer.written || message->kind == Kind::written;
        peer.left = peer.left || message->kind == Kind::goodbye;
      }
    }
  }
  finish(code);
}

void Watchdog::end_own(const std::string& line, ExitCode code) {
  if (!line.empty()) setup_.say(line);
  write_record(line);
  send_all(Kind::written);
  // Rank 0 leaves when all have written, and with it this connection ends.
  const auto end = Clock::now() + kWriteDeadline;
  const auto open = [](const Peer& peer) { return peer.line.is_open() && !peer.line.is_over(); };
  while (std::ranges::any_of(peers_, open) && Clock::now() < end) {
    wait_for_news(Clock::now() + std::chrono::milliseconds(100));
    for (Peer& peer : peers_) {
      while (peer.line.receive()) {
      }
    }
  }
  finish(code);
}

void Watchdog::write_record(const std::string& cause) {
  std::filesystem::path folder;
  {
    const std::lock_guard lock(mutex_);
    folder = folder_;
  }
  if (folder.empty() || std::exchange(record_written_, true)) return;
  const FlightHeader header{setup_.rank, setup_.ranks,
                            cause.empty() ? "another rank has said why" : cause};
  const auto write = [folder, header, record = setup_.record] {
    try {
      write_flight_file(folder, header, *record);
    } catch (const Error& error) {
      log::warn(error.what());
    }
    return true;
  };
  (void)within(kWriteDeadline, write);
}

void Watchdog::finish(ExitCode code) {
  over_ = true;
  setup_.end(code);
  peers_.clear();  // as the end of the process does it
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  changed_.notify_all();
}

}  // namespace zeropp::comm
