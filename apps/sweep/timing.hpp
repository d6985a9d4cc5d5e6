// Repetition and timing of an operation. A cycle is a number of iterations between two looks at the
// clock (nccl-tests' run); a sample is the mean time of an operation of one cycle, on every rank.
// Where a run replaces its own input, every iteration gets the input back first, outside of the
// time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "lib/comm/control.hpp"
#include "lib/device/stream.hpp"

namespace zeropp::sweep {

/// Action of a CPU after each operation, or, to line up, around each iteration (nccl-tests' -z).
enum class Blocking : std::uint8_t { none, wait_and_barrier, wait, line_up };

struct Repetition {
  std::size_t warmups = 5;     ///< at most, where iterations or cycles are free
  std::size_t iterations = 0;  ///< of a cycle; 0: as many as last kCycleSeconds
  std::size_t cycles = 0;      ///< 0: until kPrecision or `seconds`
  std::size_t aggregated = 1;  ///< operations started together in an iteration
  double seconds = 0.2;  ///< of warm-ups, and of all cycles of a measurement, where they are free
  Blocking blocking = Blocking::none;
  std::size_t graph_launches = 0;  ///< of a cycle's iterations as a graph; 0: no graph
};

/// A cycle whose length is free lasts about as long: far above the clock's and a barrier's jitter.
inline constexpr double kCycleSeconds = 1e-3;
inline constexpr std::size_t kFewestCycles = 3;

struct Samples {
  std::size_t iterations = 0;                ///< of a cycle
  std::vector<std::vector<double>> seconds;  ///< [cycle][rank], of one operation

  /// Largest time over ranks of each cycle.
  [[nodiscard]] std::vector<double> slowest() const;
};

/// Measures an operation; the samples are the same on every rank. `operate`: one iteration,
/// enqueued on `stream`; `restore`: gives the input back, on `stream`, or empty. Collective.
Samples measure(const Repetition& repetition, comm::Control& control, const Stream& stream,
                const std::function<void()>& restore, const std::function<void()>& operate);

}  // namespace zeropp::sweep
