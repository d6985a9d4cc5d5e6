// The times of a step, from marks that the streams reach: no host clock would know them on a GPU,
// where the host runs ahead. Marks are kept from step to step.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>

#include "lib/device/stream.hpp"

namespace zeropp::zero {

class StepClock {
 public:
  /// Kinds of work that keep a stream busy.
  enum class Work : std::uint8_t { gather, reduce, update, agreement, count };

  /// Times of a step, in seconds.
  struct Times {
    double forward = 0;   ///< on the compute stream
    double backward = 0;  ///< on the compute stream
    double exposed = 0;   ///< that the compute stream waited for others, part of the two
    /// Seconds in which gathers, reductions or updates were at work, those at once counted once:
    /// beside compute, or with compute waiting.
    double gather = 0;
    double reduce = 0;
    double update = 0;
    double agreement = 0;  ///< ranks agreed on sizes, and the host waited
  };

  void begin() {
    phases_used_ = waits_used_ = 0;
    work_used_ = {};
    begun_ = false;
  }
  /// Marks the origin of the times before what is enqueued from now on; the first call since
  /// begin() counts.
  void origin(const Stream& compute) {
    if (begun_) return;
    begun_ = true;
    compute.set(origin_);
  }
  /// A phase begins here and lasts until the next, or until end().
  void phase(const Stream& compute, bool backward) {
    if (phases_used_ > 0 && phases_[phases_used_ - 1].backward == backward) return;
    Phase& next = slot(phases_, phases_used_);
    next.backward = backward;
    compute.set(next.begin);
  }
  /// Runs `wait`, which makes the stream wait for others, and measures it.
  template <class Wait>
  void waiting(const Stream& compute, const Wait& wait) {
    Interval& pause = slot(pauses_, waits_used_);
    compute.set(pause.begin);
    wait();
    compute.set(pause.end);
  }
  /// Runs `enqueue`, which enqueues the work on the stream, and measures it.
  template <class Enqueue>
  void working(Work work, const Stream& stream, const Enqueue& enqueue) {
    const auto of = static_cast<std::size_t>(work);
    Interval& interval = slot(work_.at(of), work_used_.at(of));
    stream.set(interval.begin);
    enqueue();
    stream.set(interval.end);
  }
  void end(const Stream& compute) { compute.set(end_); }

  /// Times since begin(). Called when all marks have been reached since end().
  [[nodiscard]] Times times() const;

 private:
  struct Phase {
    Mark begin;
    bool backward = false;
  };
  struct Interval {
    Mark begin;
    Mark end;
  };
  static constexpr auto kWorks = static_cast<std::size_t>(Work::count);

  template <class Entry>
  static Entry& slot(std::deque<Entry>& entries, std::size_t& used) {
    if (used == entries.size()) entries.emplace_back();
    return entries[used++];
  }
  /// Seconds that any of the intervals covers.
  [[nodiscard]] double covered(Work work) const;

  // Containers are deques: what is measured may hold more of its kind.
  std::deque<Phase> phases_;
  std::deque<Interval> pauses_;
  std::array<std::deque<Interval>, kWorks> work_;
  std::size_t phases_used_ = 0;
  std::size_t waits_used_ = 0;
  std::array<std::size_t, kWorks> work_used_{};
  bool begun_ = false;
  Mark origin_;
  Mark end_;
};

}  // namespace zeropp::zero
