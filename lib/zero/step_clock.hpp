// The times of a step on the compute stream, from marks that the stream reaches: no host clock
// would know them on a GPU, where the host runs ahead. Marks are kept from step to step.
#pragma once

#include <cstddef>
#include <vector>

#include "lib/device/stream.hpp"

namespace zeropp::zero {

class StepClock {
 public:
  struct Times {
    double forward = 0;   ///< seconds
    double backward = 0;  ///< seconds
    double exposed = 0;   ///< seconds that the stream waited for others, part of the two
  };

  void begin() { phases_used_ = waits_used_ = 0; }
  /// A phase begins here and lasts until the next, or until end().
  void phase(const Stream& compute, bool backward) {
    if (phases_used_ > 0 && phases_[phases_used_ - 1].backward == backward) return;
    Phase& next = slot(phases_, phases_used_);
    next.backward = backward;
    compute.set(next.begin);
  }
  /// `wait` makes the stream wait for others.
  template <class Wait>
  void waiting(const Stream& compute, const Wait& wait) {
    Pause& pause = slot(pauses_, waits_used_);
    compute.set(pause.begin);
    wait();
    compute.set(pause.end);
  }
  void end(const Stream& compute) { compute.set(end_); }

  /// Since begin(); the stream has been synchronized since end().
  [[nodiscard]] Times times() const;

 private:
  struct Phase {
    Mark begin;
    bool backward = false;
  };
  struct Pause {
    Mark begin;
    Mark end;
  };
  template <class Entry>
  static Entry& slot(std::vector<Entry>& entries, std::size_t& used) {
    if (used == entries.size()) entries.emplace_back();
    return entries[used++];
  }

  std::vector<Phase> phases_;
  std::vector<Pause> pauses_;
  std::size_t phases_used_ = 0;
  std::size_t waits_used_ = 0;
  Mark end_;
};

}  // namespace zeropp::zero
