// ctest: name=comm_watchdog timeout=60 labels=sanitize
// The watchdog's rules, with ranks that are threads of this process and connections that are pairs
// of sockets: who says what, and with which code each rank ends. The test comm_watchdog_tsan is
// this file under the thread sanitizer.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <condition_variable>
#include <deque>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "lib/comm/flight_file.hpp"
#include "lib/comm/watchdog.hpp"

namespace zeropp::comm {
namespace {

using namespace std::chrono_literals;

constexpr int kPatient = 1'000'000;  ///< a thread that gets no processor for a while is not missed

/// A rank, and how its watchdog ended it.
struct Rank {
  FlightRecord record;
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::string> said_lines;
  std::optional<ExitCode> ended;
  std::unique_ptr<Watchdog> watchdog;

  void start(int rank, int ranks, std::vector<Lifeline> lines, int silent_looks) {
    watchdog = std::make_unique<Watchdog>(Watchdog::Setup{.rank = rank,
                                                          .ranks = ranks,
                                                          .lines = std::move(lines),
                                                          .record = &record,
                                                          .look = 5ms,
                                                          .silent_looks = silent_looks,
                                                          .say =
                                                              [this](const std::string& line) {
                                                                const std::lock_guard lock(mutex);
                                                                said_lines.push_back(line);
                                                              },
                                                          .end =
                                                              [this](ExitCode code) {
                                                                const std::lock_guard lock(mutex);
                                                                ended = code;
                                                                changed.notify_all();
                                                              }});
  }
  ExitCode wait_for_end() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return ended.has_value(); });
    return *ended;
  }
  bool is_over() {
    const std::lock_guard lock(mutex);
    return ended.has_value();
  }
  std::vector<std::string> said() {
    const std::lock_guard lock(mutex);
    return said_lines;
  }
};

std::pair<int, int> connected() {
  std::array<int, 2> ends{};
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
  return {ends[0], ends[1]};
}

class Job {
 public:
  explicit Job(int ranks) : ranks_(static_cast<std::size_t>(ranks)) {
    std::vector<Lifeline> of_0;
    std::vector<Lifeline> of_others;
    for (int rank = 1; rank < ranks; ++rank) {
      const auto [here, there] = connected();
      of_0.emplace_back(here, "host");
      of_others.emplace_back(there, "host");
    }
    for (int rank = ranks - 1; rank >= 0; --rank) {
      std::vector<Lifeline> lines;
      if (rank == 0) lines = std::move(of_0);
      if (rank > 0) lines.push_back(std::move(of_others[static_cast<std::size_t>(rank - 1)]));
      of(rank).start(rank, ranks, std::move(lines), kPatient);
    }
  }
  /// A rank whose watchdog ends the process leaves nothing open.
  ~Job() {
    for (Rank& rank : ranks_) rank.watchdog.reset();
  }
  Rank& of(int rank) { return ranks_[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] int size() const { return static_cast<int>(ranks_.size()); }

 private:
  std::deque<Rank> ranks_;
};

/// Sets the deadline of the processes' watchdogs while it lives.
class Deadline {
 public:
  explicit Deadline(Seconds seconds) { Watchdog::set_deadline(seconds); }
  ~Deadline() { Watchdog::set_deadline(before_); }
  Deadline(const Deadline&) = delete;
  Deadline& operator=(const Deadline&) = delete;

 private:
  Seconds before_ = Watchdog::deadline();
};

class Folder {
 public:
  Folder()
      : path_(std::filesystem::temp_directory_path() / ("zeropp-" + std::to_string(::getpid()))) {}
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

std::uint64_t wait_in(Rank& rank, const char* name, std::uint64_t sequence) {
  return rank.record.wait(rank.record.begin(name, "world", sequence, 64));
}

class Expiry : public testing::TestWithParam<int> {};

/// Whichever rank waits, rank 0 prints the message and names the ranks that are elsewhere, and all
/// ranks end with 124.
TEST_P(Expiry, NamesWhoWaitsAndWhoIsElsewhere) {
  const int elsewhere = GetParam();
  const Deadline deadline(1s);
  const Folder folder;
  Job job(3);
  for (int rank = 0; rank < job.size(); ++rank) {
    job.of(rank).watchdog->set_folder(folder.path());
    if (rank != elsewhere) wait_in(job.of(rank), "exchange", 17);
    if (rank == elsewhere) job.of(rank).record.end(wait_in(job.of(rank), "barrier", 16));
  }
  for (int rank = 0; rank < job.size(); ++rank) {
    EXPECT_EQ(job.of(rank).wait_for_end(), ExitCode::watchdog);
    EXPECT_EQ(job.of(rank).said().size(), rank == 0 ? 1U : 0U);
    std::ifstream file(folder.path() / flight_file_name(rank));
    const auto record = nlohmann::json::parse(file);
    EXPECT_EQ(record["rank"], rank);
    EXPECT_EQ(record["operations"].back()["operation"], rank == elsewhere ? "barrier" : "exchange");
    EXPECT_EQ(record["operations"].back()["state"], rank == elsewhere ? "done" : "waiting");
  }
  const std::string line = job.of(0).said().front();
  EXPECT_NE(line.find("waits in exchange 17 of group world"), std::string::npos) << line;
  EXPECT_NE(line.find("rank " + std::to_string(elsewhere) + " on"), std::string::npos) << line;
  EXPECT_NE(line.find("its last was barrier 16 of group world"), std::string::npos) << line;
}
INSTANTIATE_TEST_SUITE_P(Ranks, Expiry, testing::Values(0, 1, 2));

TEST(Watchdog, OneRankAloneHasADeadlineToo) {
  const Deadline deadline(20ms);
  Job job(1);
  wait_in(job.of(0), "creation", 1);
  EXPECT_EQ(job.of(0).wait_for_end(), ExitCode::watchdog);
  EXPECT_EQ(job.of(0).said().size(), 1U);
}

/// Patience, a deadline of 0 and new operations: a second job, whose deadline passes, shows that
/// time went by.
TEST(Watchdog, LeavesTheOthersAlone) {
  const Deadline deadline(1s);
  Job job(2);
  job.of(0).record.set_patient(true);
  wait_in(job.of(0), "sum", 1);
  Job late(1);
  wait_in(late.of(0), "sum", 1);
  // Rank 1 begins one operation after the other: none of them is late.
  for (std::uint64_t sequence = 1; !late.of(0).is_over(); ++sequence) {
    job.of(1).record.end(wait_in(job.of(1), "sum", sequence));
  }
  EXPECT_FALSE(job.of(0).is_over());
  EXPECT_FALSE(job.of(1).is_over());
}

/// A rank that the test plays, connected with rank `rank` of 3.
class Played {
 public:
  explicit Played(int rank, int silent_looks = kPatient) {
    const auto [here, there] = connected();
    end_ = here;
    std::vector<Lifeline> lines;
    lines.emplace_back(there, "elsewhere");
    real_.start(rank, 3, std::move(lines), silent_looks);
  }
  ~Played() { die(); }
  Played(const Played&) = delete;
  Played& operator=(const Played&) = delete;

  Rank& real() { return real_; }
  void send(LifeMessage::Kind kind, ExitCode code = ExitCode::ok) const {
    LifeMessage message{kind, static_cast<std::int32_t>(code), {}};
    message.state.begun = 1;
    message.state.sequence = 5;
    std::ranges::copy(std::string_view("barrier"), message.state.operation.begin());
    std::ranges::copy(std::string_view("control"), message.state.group.begin());
    EXPECT_EQ(::send(end_, &message, sizeof message, 0), static_cast<ssize_t>(sizeof message));
  }
  /// Closes the connection as the kernel does when a process dies.
  void die() {
    if (end_ >= 0) ::close(std::exchange(end_, -1));
  }

 private:
  int end_ = -1;
  Rank real_;
};

void expect_part(const std::string& line, const std::string& part) {
  EXPECT_NE(line.find(part), std::string::npos) << line;
}

TEST(Watchdog, ADeadRankIsNamedWithItsLastOperation) {
  Played peer(0);
  peer.send(LifeMessage::Kind::beat);
  peer.die();
  EXPECT_EQ(peer.real().wait_for_end(), ExitCode::watchdog);
  ASSERT_EQ(peer.real().said().size(), 1U);
  expect_part(peer.real().said().front(),
              "rank 1 on elsewhere died; it was last heard of in barrier 5 of group control");
}

TEST(Watchdog, AStoppedRankIsNamed) {
  Played peer(0, /*silent_looks=*/30);
  EXPECT_EQ(peer.real().wait_for_end(), ExitCode::watchdog);
  ASSERT_EQ(peer.real().said().size(), 1U);
  expect_part(peer.real().said().front(), "rank 1 on elsewhere does not answer");
}

/// With a deadline that passes before a silent rank counts as lost.
TEST(Watchdog, ASilentRankIsNamedByTheDeadlineAsWell) {
  const Deadline deadline(50ms);
  Played peer(0);
  peer.send(LifeMessage::Kind::beat);
  wait_in(peer.real(), "exchange", 17);
  EXPECT_EQ(peer.real().wait_for_end(), ExitCode::watchdog);
  ASSERT_EQ(peer.real().said().size(), 1U);
  expect_part(peer.real().said().front(), "rank 0 on ");
  expect_part(peer.real().said().front(), " waits in exchange 17 of group world");
  expect_part(peer.real().said().front(), "rank 1 on elsewhere is silent for ");
  expect_part(peer.real().said().front(), "its last was barrier 5 of group control");
}

TEST(Watchdog, RankOneSpeaksForADeadRankZero) {
  for (const int rank : {1, 2}) {
    Played peer(rank);
    peer.die();
    EXPECT_EQ(peer.real().wait_for_end(), ExitCode::watchdog);
    ASSERT_EQ(peer.real().said().size(), rank == 1 ? 1U : 0U);
    if (rank == 1) expect_part(peer.real().said().front(), "rank 0 on elsewhere died");
  }
}

TEST(Watchdog, WhoSaidWhyIsNotMissed) {
  for (const int rank : {0, 1}) {
    Played peer(rank);
    peer.send(LifeMessage::Kind::failed, ExitCode::io);
    peer.die();
    EXPECT_EQ(peer.real().wait_for_end(), ExitCode::io);  // nobody else ends it here
    EXPECT_TRUE(peer.real().said().empty());
  }
}

TEST(Watchdog, WhoTookLeaveIsNotMissed) {
  const Deadline deadline(50ms);
  Played peer(0);
  peer.send(LifeMessage::Kind::goodbye);
  peer.die();
  Job late(1);  // its end shows that time went by
  wait_in(late.of(0), "sum", 1);
  EXPECT_EQ(late.of(0).wait_for_end(), ExitCode::watchdog);
  EXPECT_FALSE(peer.real().is_over());
}

/// Where all end in order, a launcher may kill who is left: nobody is to call that a death.
TEST(Watchdog, WhoLeavesMissesNobody) {
  const Deadline deadline(50ms);
  for (const int rank : {0, 1, 2}) {
    Played peer(rank);
    peer.real().watchdog->leave();
    peer.die();
    Job late(1);  // its end shows that time went by
    wait_in(late.of(0), "sum", 1);
    EXPECT_EQ(late.of(0).wait_for_end(), ExitCode::watchdog);
    EXPECT_FALSE(peer.real().is_over()) << rank;
    wait_in(peer.real(), "end of MPI", 1);
    EXPECT_EQ(peer.real().wait_for_end(), ExitCode::watchdog) << "the deadline holds on";
  }
}

TEST(Watchdog, AnOrderlyEndEndsNobody) {
  Job job(3);
  for (const int rank : {1, 0, 2}) {
    job.of(rank).watchdog.reset();
    EXPECT_TRUE(job.of(rank).said().empty());
    EXPECT_FALSE(job.of(rank).is_over());
  }
}

TEST(Watchdog, OneThatFailsByItsOwnDeadlineHasAllRecordsWritten) {
  for (const int rank : {0, 1, 2}) {
    const Folder folder;
    Job job(3);
    for (int each = 0; each < job.size(); ++each) {
      job.of(each).watchdog->set_folder(folder.path());
    }
    std::thread fails([&] { job.of(rank).watchdog->failing(ExitCode::watchdog); });
    for (int each = 0; each < job.size(); ++each) {
      EXPECT_EQ(job.of(each).wait_for_end(), ExitCode::watchdog);
      EXPECT_TRUE(job.of(each).said().empty());
      EXPECT_TRUE(std::filesystem::exists(folder.path() / flight_file_name(each)));
    }
    fails.join();
  }
}

}  // namespace
}  // namespace zeropp::comm
