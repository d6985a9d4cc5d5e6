#include "lib/comm/flight_record.hpp"

#include <deque>
#include <map>
#include <mutex>

#include "lib/base/fault.hpp"

namespace zeropp::comm {

namespace {

using Clock = FlightRecord::Clock;
constexpr auto relaxed = std::memory_order_relaxed;
constexpr auto acquire = std::memory_order_acquire;
constexpr auto release = std::memory_order_release;

Clock::rep now() { return Clock::now().time_since_epoch().count(); }

Clock::time_point at(Clock::rep ticks) { return Clock::time_point(Clock::duration(ticks)); }

/// Labels outlive their groups: entries name them.
const char* new_label(const std::string& name) {
  static std::mutex mutex;
  static std::map<std::string, int> groups;
  static std::deque<std::string> labels;
  const std::lock_guard lock(mutex);
  const int count = ++groups[name];
  labels.push_back(count == 1 ? name : name + " " + std::to_string(count));
  return labels.back().c_str();
}

}  // namespace

FlightRecord& FlightRecord::of_process() {
  static FlightRecord record;
  return record;
}

std::uint64_t FlightRecord::begin(const char* name, const char* group, std::uint64_t sequence,
                                  std::uint64_t bytes) noexcept {
  const std::uint64_t number = newest_.load(relaxed) + 1;
  Entry& entry = ring_[number % kEntries];
  const std::uint64_t version = entry.version.load(relaxed);
  const Clock::rep time = now();
  entry.version.store(version + 1, relaxed);
  entry.number.store(number, release);
  entry.name.store(name, release);
  entry.group.store(group, release);
  entry.sequence.store(sequence, release);
  entry.bytes.store(bytes, release);
  entry.state.store(OperationState::started, release);
  entry.patient.store(patient_, release);
  entry.began.store(time, release);
  entry.changed.store(time, release);
  entry.version.store(version + 2, release);
  newest_.store(number, release);
  return number;
}

void FlightRecord::change(std::uint64_t number, OperationState state) noexcept {
  Entry& entry = ring_[number % kEntries];
  if (entry.number.load(relaxed) == number) {
    const std::uint64_t version = entry.version.load(relaxed);
    entry.version.store(version + 1, relaxed);
    entry.state.store(state, release);
    entry.changed.store(now(), release);
    entry.version.store(version + 2, release);
  }
  waiting_.store(state == OperationState::waiting ? number : 0, release);
}

std::uint64_t FlightRecord::wait(std::uint64_t number) noexcept {
  const bool overwritten = ring_[number % kEntries].number.load(relaxed) != number;
  const std::uint64_t waited = overwritten ? begin("wait", "(overwritten)", number, 0) : number;
  change(waited, OperationState::waiting);
  return waited;
}

std::optional<Operation> FlightRecord::read(std::uint64_t number) const {
  const Entry& entry = ring_[number % kEntries];
  const std::uint64_t before = entry.version.load(acquire);
  Operation operation{.number = entry.number.load(acquire),
                      .name = entry.name.load(acquire),
                      .group = entry.group.load(acquire),
                      .sequence = entry.sequence.load(acquire),
                      .bytes = entry.bytes.load(acquire),
                      .state = entry.state.load(acquire),
                      .patient = entry.patient.load(acquire),
                      .began = at(entry.began.load(acquire)),
                      .changed = at(entry.changed.load(acquire))};
  const bool whole = before % 2 == 0 && entry.version.load(relaxed) == before;
  if (!whole || operation.number != number || number == 0) return std::nullopt;
  return operation;
}

std::vector<Operation> FlightRecord::read() const {
  const std::uint64_t last = newest_.load(acquire);
  std::vector<Operation> operations;
  for (std::uint64_t number = last < kEntries ? 1 : last - kEntries + 1; number <= last; ++number) {
    if (const auto operation = read(number)) operations.push_back(*operation);
  }
  return operations;
}

std::optional<Operation> FlightRecord::newest() const { return read(newest_.load(acquire)); }

std::optional<Operation> FlightRecord::waiting() const {
  const auto operation = read(waiting_.load(acquire));
  if (!operation || operation->state != OperationState::waiting) return std::nullopt;
  return operation;
}

GroupLog::GroupLog(const std::string& name) : label_(new_label(name)) {}

std::uint64_t GroupLog::begin(const char* operation, std::uint64_t bytes) noexcept {
  const std::uint64_t number =
      FlightRecord::of_process().begin(operation, label_, ++sequence_, bytes);
  fault::at_operation(number);
  return number;
}

}  // namespace zeropp::comm
