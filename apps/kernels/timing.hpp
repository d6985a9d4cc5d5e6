// Timing of a kernel. A sample is the mean time of a number of runs that go through the sets of
// operands in turn; runs of a sample last about a millisecond together, so that neither the clock
// nor a launch counts. On the host google-benchmark's loop takes the samples, on a GPU events of
// the stream, behind a run that is not timed and hides the first launch.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "lib/device/device.hpp"

namespace zeropp::kernels {

struct Repetition {
  double seconds = 0.5;     ///< samples end after it, where their number is free
  std::size_t samples = 0;  ///< 0: until the median is known (kPrecision) or `seconds` are over
};

/// Fewest samples, even where time is up, and before the median counts as known.
inline constexpr std::size_t kFewestSamples = 5;
inline constexpr std::size_t kUsualSamples = 20;

struct Samples {
  std::size_t runs = 1;         ///< of a sample
  std::vector<double> seconds;  ///< of one run
};

/// Measures runs: `run` enqueues the next run on `stream`.
Samples measure(const Repetition& repetition, const Device& device, const Stream& stream,
                const std::function<void()>& run);

}  // namespace zeropp::kernels
