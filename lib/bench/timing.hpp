// Repetition of a measurement until its time is known. A cycle is a number of iterations between
// two looks at the clock (nccl-tests' run); a sample is the mean time of an operation of one cycle,
// on every rank.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <vector>

#include "lib/comm/control.hpp"
#include "lib/device/stream.hpp"

namespace zeropp::bench {

using Clock = std::chrono::steady_clock;

inline double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// Seconds of `count` calls of `run` in a row, with what they enqueue on `stream`.
double seconds_of(const Stream& stream, std::size_t count, const std::function<void()>& run);

struct Repetition {
  std::size_t warmups = 5;             ///< iterations; at most, where iterations or cycles are free
  std::size_t iterations = 0;          ///< of a cycle; 0: as many as last kCycleSeconds
  std::size_t most_iterations = 1000;  ///< of a cycle, where their number is free
  std::size_t operations = 1;          ///< of an iteration
  std::size_t cycles = 0;  ///< 0: until the median is known (kPrecision) or `seconds` are over
  std::size_t fewest_cycles = 3;  ///< even where the time is over
  std::size_t known_after = 0;    ///< cycles before which the median does not count as known
  double seconds = 0.2;  ///< of warm-ups, and of all cycles of a measurement, where they are free
};

/// A cycle whose length is free lasts about as long: far above the clock's and a barrier's jitter.
inline constexpr double kCycleSeconds = 1e-3;

/// Samples of one machine whose coefficient of variation is larger are worth a note.
inline constexpr double kNoisy = 0.02;

struct Samples {
  std::size_t iterations = 0;                ///< of a cycle
  std::vector<std::vector<double>> seconds;  ///< [cycle][rank], of one operation

  /// Largest time over ranks of each cycle.
  [[nodiscard]] std::vector<double> slowest() const;
};

/// Runs so many iterations, and returns their seconds on this rank.
using Cycle = std::function<double(std::size_t iterations)>;

/// Warms up, and returns the iterations of a cycle. `ranks`: those that measure together; null:
/// this process alone. Collective over `ranks`.
std::size_t warm_up(const Repetition& repetition, comm::Control* ranks, const Cycle& cycle);

/// Runs cycles of `iterations`, as many as `repetition` says; the samples are the same on every
/// rank. Collective over `ranks`, as in warm_up().
Samples take_samples(const Repetition& repetition, comm::Control* ranks, std::size_t iterations,
                     const Cycle& cycle);

}  // namespace zeropp::bench
