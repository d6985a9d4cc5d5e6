// Ends a job that hangs. On every rank a thread looks twice a second whether the host waits too
// long in an operation (lib/comm/flight_record.hpp), and whether the other ranks live
// (lib/comm/lifeline.hpp). When an operation passes its deadline, or a rank dies or stops, one line
// on standard error names rank and operation, every rank writes its flight record, and all end with
// exit code 124, without help from MPI or the launcher. Time is counted in looks of the thread, so
// that a job that was suspended and resumed is not ended.
//
// Rank 0 decides: the others tell it what they do with every look, and obey it. Ranks are numbered
// as they were launched.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "lib/base/error.hpp"
#include "lib/base/poll.hpp"
#include "lib/comm/flight_record.hpp"
#include "lib/comm/lifeline.hpp"

namespace zeropp::comm {

class Watchdog {
 public:
  struct Setup {
    int rank = 0;
    int ranks = 1;
    std::vector<Lifeline> lines;  ///< connect_lifelines(); empty: it knows of this rank alone
    FlightRecord* record = &FlightRecord::of_process();
    std::chrono::milliseconds look{500};
    int silent_looks = 30;  ///< for which a rank may be silent
    /// Functions that say a line and end the process; tests give others.
    std::function<void(const std::string& line)> say = {};
    std::function<void(ExitCode)> end = {};
  };
  explicit Watchdog(Setup setup);
  /// Calls leave() where the program has not.
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  /// Deadline of the operations of this process. 0: no deadline, and silent ranks are tolerated (a
  /// debugger may have stopped them); a dead rank always ends the job.
  static void set_deadline(Seconds deadline);
  static Seconds deadline();

  /// Sets the folder that the flight record goes to; before that it is not written.
  void set_folder(const std::filesystem::path& folder);
  /// Tells the others that all ranks end in order now: they no longer watch for this rank's death,
  /// nor it for theirs, since a launcher may kill the remaining ranks once one has ended with a
  /// code other than 0. The deadline stays in force. Called before the last collective work of all
  /// ranks.
  void leave();
  /// Tells the others that this rank has printed why it ends the job, and is about to end it. They
  /// print nothing, and end with `code` where the launcher does not end them. With the watchdog's
  /// code all flight records are written, and this rank is ended here.
  void failing(ExitCode code);
  /// Waits, after an error that may be another rank's death, for the watchdog, which ends the
  /// process in here if it finds one.
  static void wait_for_verdict();

 private:
  struct Peer {
    int rank = 0;
    Lifeline line;
    RankState state;
    int silent = 0;          ///< looks since it was heard of
    bool left = false;       ///< in order, or after it said why
    bool explained = false;  ///< it said that the job ends
    bool written = false;    ///< its flight record
  };

  void run();
  void wait_for_news(std::chrono::steady_clock::time_point until);
  void hear();
  void hear(Peer& peer, const LifeMessage& message);
  void look();
  void look_at_deadline();
  void lost(Peer& peer, const std::string& how);
  void explained(Peer& peer, ExitCode code);
  void failing_is_known();
  void say_goodbye();
  void take_leave();
  void send_all(LifeMessage::Kind kind, ExitCode code = ExitCode::ok);

  void end_all(const std::string& line, ExitCode code);
  void end_own(const std::string& line, ExitCode code);
  void write_record(const std::string& cause);
  void finish(ExitCode code);
  [[nodiscard]] RankState own_state() const;
  [[nodiscard]] std::string who(int rank) const;
  [[nodiscard]] std::string where_records_are();
  [[nodiscard]] std::string describe_expiry(int rank, const RankState& state);
  [[nodiscard]] std::string describe_others(int rank, const RankState& state);
  [[nodiscard]] std::string describe_death(const Peer& peer, const std::string& how);

  Setup setup_;
  std::vector<Peer> peers_;
  int wake_ = -1;  ///< an eventfd: something for the thread
  std::uint64_t watched_ = 0;
  int watched_looks_ = 0;   ///< for which the host waits in operation `watched_`
  int looks_to_obey_ = -1;  ///< until this rank ends by itself; below 0: it does not
  ExitCode code_to_obey_ = ExitCode::ok;
  std::string own_line_;  ///< that it ends with then
  bool record_written_ = false;
  bool over_ = false;
  bool gone_ = false;  ///< this rank said goodbye

  std::mutex mutex_;  ///< of what follows
  std::condition_variable changed_;
  std::filesystem::path folder_;
  bool leaving_ = false;
  bool goodbye_asked_ = false;
  bool goodbye_said_ = false;
  std::optional<ExitCode> failing_;
  bool failing_said_ = false;
  bool failing_known_ = false;  ///< all others have been told
  bool ended_ = false;          ///< where `Setup::end` returns
  std::thread thread_;
};

}  // namespace zeropp::comm
