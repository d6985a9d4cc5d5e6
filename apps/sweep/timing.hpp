// Timing of an operation over ranks. Where a run replaces its own input, every iteration gets the
// input back first, outside of the time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "lib/bench/timing.hpp"

namespace zeropp::sweep {

using bench::Samples;

/// Action of a CPU after each operation, or, to line up, around each iteration (nccl-tests' -z).
enum class Blocking : std::uint8_t { none, wait_and_barrier, wait, line_up };

struct Repetition {
  bench::Repetition times;
  Blocking blocking = Blocking::none;
  std::size_t graph_launches = 0;  ///< of a cycle's iterations as a graph; 0: no graph
};

/// Measures an operation; the samples are the same on every rank. `operate`: one iteration,
/// enqueued on `stream`; `restore`: gives the input back, on `stream`, or empty. Collective.
Samples measure(const Repetition& repetition, comm::Control& control, const Stream& stream,
                const std::function<void()>& restore, const std::function<void()>& operate);

}  // namespace zeropp::sweep
