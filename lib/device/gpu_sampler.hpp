// Reads a GPU's clocks, power, temperature, use and clock event reasons again and again, on a
// thread of its own that makes no call of CUDA and of MPI: the thread that works is not held up.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "lib/device/nvml.hpp"

namespace zeropp {

struct GpuSample {
  double time = 0;  ///< seconds since the sampler began
  GpuReading reading;
};

struct GpuSeries {
  std::vector<GpuSample>
      samples;         ///< in order of time; the first at the begin, the last at the end
  std::string absent;  ///< why there are none: one line; else empty
};

/// Drops every second reading; its clock event reasons go to the one before: none is lost.
void thin(std::vector<GpuSample>& samples);

class GpuSampler {
 public:
  /// Largest number of readings that are kept: those of a longer run are thinned and come half as
  /// often, since rank 0 gathers those of all.
  static constexpr std::size_t kMostSamples = 4096;

  /// Begins at once. `period`: seconds (> 0) between the end of a reading and the next one. Where
  /// NVML or the GPU cannot be had there is no thread, and stop() says why. `library`: see Nvml.
  GpuSampler(const std::string& uuid, double period, const std::string& library = Nvml::kLibrary);
  ~GpuSampler();
  GpuSampler(const GpuSampler&) = delete;
  GpuSampler& operator=(const GpuSampler&) = delete;

  /// Reads once more, ends the thread, and gives what it read. Once.
  [[nodiscard]] GpuSeries stop();

 private:
  void run(void* gpu, double period);
  void join();

  std::unique_ptr<const Nvml> nvml_;
  GpuSeries series_;  ///< the thread's, until it has ended
  std::mutex mutex_;
  std::condition_variable ended_;
  bool done_ = false;
  std::thread thread_;
};

}  // namespace zeropp
