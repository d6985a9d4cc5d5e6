// Checks a problem once and measures it, on one device.
#pragma once

#include <string>

#include "apps/kernels/kernel.hpp"
#include "apps/kernels/timing.hpp"
#include "lib/device/compute_device.hpp"

namespace zeropp::kernels {

struct Measured {
  std::string wrong;  ///< what the check found; then nothing was timed
  std::size_t sets = 0;
  Samples samples;
};

class Bench {
 public:
  /// `least`: bytes that the runs of all sets of operands move together: no cache holds them.
  Bench(const ComputeDevice& device, std::size_t least, const Repetition& repetition)
      : device_(device),
        stream_(device.make_stream("kernels")),
        least_(least),
        repetition_(repetition) {}

  [[nodiscard]] Measured measure(const Problem& problem) const;
  [[nodiscard]] const ComputeDevice& device() const { return device_; }
  [[nodiscard]] const Stream& stream() const { return stream_; }
  [[nodiscard]] const Repetition& repetition() const { return repetition_; }
  [[nodiscard]] std::size_t least() const { return least_; }

 private:
  ComputeDevice device_;
  Stream stream_;
  std::size_t least_;
  Repetition repetition_;
};

}  // namespace zeropp::kernels
