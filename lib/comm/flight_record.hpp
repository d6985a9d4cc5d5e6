// The last operations of this process that wait for other ranks: what a watchdog looks at, and what
// is left for people after a hang. A ring of fixed size, written by the one thread that
// communicates, read by any: no locks, a few stores and a look at the clock an operation. An entry
// that is overwritten while it is read is left out.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace zeropp::comm {

enum class OperationState : std::uint8_t {
  started,   ///< under way; the host does something else
  waiting,   ///< the host waits for it
  enqueued,  ///< given to a GPU's stream: the host does not know when it ends
  done
};
constexpr std::string_view name_of(OperationState state) {
  constexpr std::array<std::string_view, 4> kNames{"started", "waiting", "enqueued", "done"};
  return kNames.at(static_cast<std::size_t>(state));
}

struct Operation {
  std::uint64_t number = 0;    ///< of this process, from 1
  const char* name = "";       ///< "exchange", "barrier"
  const char* group = "";      ///< GroupLog::label()
  std::uint64_t sequence = 0;  ///< in the group, from 1: the same on all of its ranks
  std::uint64_t bytes = 0;     ///< that this rank sends, or for the vendor's: of its buffers
  OperationState state{};
  bool patient = false;  ///< others may take as long as they like: no deadline
  std::chrono::steady_clock::time_point began;
  std::chrono::steady_clock::time_point changed;  ///< when it came into its state
};

class FlightRecord {
 public:
  static constexpr std::size_t kEntries = 64;
  using Clock = std::chrono::steady_clock;

  /// The one that every communicator writes.
  static FlightRecord& of_process();

  /// Enters an operation that begins; called by the communicating thread. `name` and `group` live
  /// as long as the process. Returns the number of the operation, which the other functions take.
  std::uint64_t begin(const char* name, const char* group, std::uint64_t sequence,
                      std::uint64_t bytes) noexcept;
  /// Notes that the host waits for the operation from here on. Returns the number to use from here
  /// on: an operation that was overwritten since is entered again, without its name.
  std::uint64_t wait(std::uint64_t number) noexcept;
  /// Notes that the host waits no more.
  void enqueued(std::uint64_t number) noexcept { change(number, OperationState::enqueued); }
  void end(std::uint64_t number) noexcept { change(number, OperationState::done); }
  /// Number of the operation that the host waits for, or 0; resume() notes that it waits for that
  /// one again, when one inside it ended.
  [[nodiscard]] std::uint64_t waits_for() const noexcept {
    return waiting_.load(std::memory_order_relaxed);
  }
  void resume(std::uint64_t number) noexcept { waiting_.store(number, std::memory_order_release); }
  /// Sets whether operations that begin from here on are patient. Returns the value before.
  bool set_patient(bool patient) noexcept { return std::exchange(patient_, patient); }

  /// Number of operations that have begun; for any thread.
  [[nodiscard]] std::uint64_t begun() const noexcept {
    return newest_.load(std::memory_order_acquire);
  }
  /// The last operations, at most kEntries, oldest first; for any thread.
  [[nodiscard]] std::vector<Operation> read() const;
  /// The newest operation; nothing before the first.
  [[nodiscard]] std::optional<Operation> newest() const;
  /// The operation that the host waits for, if it waits.
  [[nodiscard]] std::optional<Operation> waiting() const;

 private:
  /// Every member is atomic, so that a reader may come at any time. `version` is odd while the
  /// others change; they are stored with release and loaded with acquire, so that who sees one of
  /// the new values sees the new version as well.
  struct Entry {
    std::atomic<std::uint64_t> version{0};
    std::atomic<std::uint64_t> number{0};
    std::atomic<const char*> name{""};
    std::atomic<const char*> group{""};
    std::atomic<std::uint64_t> sequence{0};
    std::atomic<std::uint64_t> bytes{0};
    std::atomic<OperationState> state{OperationState::done};
    std::atomic<bool> patient{false};
    std::atomic<Clock::rep> began{0};
    std::atomic<Clock::rep> changed{0};
  };

  void change(std::uint64_t number, OperationState state) noexcept;
  [[nodiscard]] std::optional<Operation> read(std::uint64_t number) const;

  std::array<Entry, kEntries> ring_;
  std::atomic<std::uint64_t> newest_{0};
  std::atomic<std::uint64_t> waiting_{0};  ///< number; 0: the host does not wait
  bool patient_ = false;
};

/// Writer of a group's operations into the record: its label, and how many operations it had. All
/// ranks make their groups in one order, so that labels and numbers mean the same on all of them.
class GroupLog {
 public:
  /// The second group of a name is labelled "NAME 2", and so on.
  explicit GroupLog(const std::string& name);
  [[nodiscard]] const char* label() const { return label_; }
  /// FlightRecord::begin(), of the process's record.
  std::uint64_t begin(const char* operation, std::uint64_t bytes) noexcept;

 private:
  const char* label_;
  std::uint64_t sequence_ = 0;
};

/// The host waits for an operation from begin to end of a scope.
template <void (FlightRecord::*leave)(std::uint64_t) noexcept>
class HostWait {
 public:
  HostWait(GroupLog& log, const char* operation, std::uint64_t bytes = 0) noexcept
      : HostWait(log.begin(operation, bytes)) {}
  /// Waits for operation `number`, which began before.
  explicit HostWait(std::uint64_t number) noexcept
      : outer_(record_.waits_for()), number_(record_.wait(number)) {}
  ~HostWait() {
    (record_.*leave)(number_);
    if (outer_ != 0) record_.resume(outer_);
  }
  HostWait(const HostWait&) = delete;
  HostWait& operator=(const HostWait&) = delete;

 private:
  FlightRecord& record_ = FlightRecord::of_process();
  std::uint64_t outer_;
  std::uint64_t number_;
};

/// A wait after which the operation is done.
using Waiting = HostWait<&FlightRecord::end>;
/// A wait after which the operation is in a GPU's stream: the host may wait in calls that put it
/// there.
using Enqueueing = HostWait<&FlightRecord::enqueued>;

/// A scope in which other ranks may take as long as they like: they do work that this rank has no
/// part in.
class Patience {
 public:
  Patience() : before_(FlightRecord::of_process().set_patient(true)) {}
  ~Patience() { FlightRecord::of_process().set_patient(before_); }
  Patience(const Patience&) = delete;
  Patience& operator=(const Patience&) = delete;

 private:
  bool before_;
};

}  // namespace zeropp::comm
