// Checks a problem once and measures it, on one device. Runs go through the sets of operands in
// turn. On the host they are timed by its clock, on a GPU by events of the stream, after a run that
// is not timed and hides the first launch.
#pragma once

#include <functional>
#include <string>

#include "apps/kernels/kernel.hpp"
#include "lib/bench/timing.hpp"
#include "lib/device/compute_device.hpp"

namespace zeropp::kernels {

using bench::Samples;

/// A measurement of `samples` cycles; 0: until the median is known, or for `seconds`, but of 5.
constexpr bench::Repetition repetition_of(std::size_t samples, double seconds) {
  return {.warmups = 3,
          .most_iterations = 10'000,
          .cycles = samples,
          .fewest_cycles = 5,
          .known_after = 20,
          .seconds = seconds};
}

/// Bytes of the GPU's L2, or of the host's largest cache: as the kernel of the system lists those
/// of the first processor, else as the C library knows it, else 64 MiB.
std::size_t cache_bytes(const Device& device, int gpu);

/// Operands of all sets together: so many caches.
inline constexpr std::size_t kCachesFilled = 4;

struct Measured {
  std::string wrong;  ///< what the check found; then nothing was timed
  std::size_t sets = 0;
  Samples samples;
};

class Bench {
 public:
  /// `least`: bytes that the runs of all sets of operands move together: no cache holds them.
  Bench(const ComputeDevice& device, std::size_t least, const bench::Repetition& repetition)
      : device_(device),
        stream_(device.make_stream("kernels")),
        least_(least),
        repetition_(repetition) {}

  [[nodiscard]] Measured measure(const Problem& problem) const;
  /// Measures runs: `run` enqueues the next one on stream().
  [[nodiscard]] Samples time(const std::function<void()>& run) const;
  [[nodiscard]] const ComputeDevice& device() const { return device_; }
  [[nodiscard]] const Stream& stream() const { return stream_; }
  [[nodiscard]] std::size_t least() const { return least_; }

 private:
  ComputeDevice device_;
  Stream stream_;
  std::size_t least_;
  bench::Repetition repetition_;
};

}  // namespace zeropp::kernels
