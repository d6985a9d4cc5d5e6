// What the benchmarks of the GPU share: the time of a call on one stream, and a table of rates
// beside a device-to-device copy. Time is the median of the samples, each of four calls between two
// events.
#pragma once

#include <algorithm>
#include <cstdio>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "kernels/core/cuda/launch.cuh"
#include "lib/device/runtime.hpp"
#include "lib/device/stream.hpp"

namespace zeropp::bench {

inline constexpr int kWarmUps = 3;
inline constexpr int kSamples = 21;
inline constexpr int kCalls = 4;  ///< of a sample: a launch is hidden behind the call before

inline const Stream& stream() {
  static const Stream made(*cuda_runtime(), "bench");
  return made;
}

/// Seconds of one call, the median.
inline double median_time(const std::function<void()>& call) {
  cudaEvent_t begin = nullptr;
  cudaEvent_t end = nullptr;
  cuda::check(cudaEventCreate(&begin));
  cuda::check(cudaEventCreate(&end));
  const cudaStream_t native = cuda::stream_of(stream().handle());
  std::vector<float> milliseconds;
  for (int i = 0; i < kWarmUps + kSamples; ++i) {
    cuda::check(cudaEventRecord(begin, native));
    for (int k = 0; k < kCalls; ++k) call();
    cuda::check(cudaEventRecord(end, native));
    cuda::check(cudaEventSynchronize(end));
    float elapsed = 0;
    cuda::check(cudaEventElapsedTime(&elapsed, begin, end));
    if (i >= kWarmUps) milliseconds.push_back(elapsed);
  }
  cuda::check(cudaEventDestroy(begin));
  cuda::check(cudaEventDestroy(end));
  std::ranges::nth_element(milliseconds, milliseconds.begin() + kSamples / 2);
  return 1e-3 / kCalls * milliseconds[kSamples / 2];
}

class Table {
 public:
  /// `of`: what the second column names, "codec".
  explicit Table(std::string of) : of_(std::move(of)) {
    std::printf("%-14s %-26s %10s %8s %8s\n", "operation", of_.c_str(), "MB", "TB/s", "of copy");
  }
  /// A copy took so long: what the rows that follow are compared with.
  void copy(std::size_t bytes, double seconds) {
    copy_ = static_cast<double>(bytes) / seconds;
    add("copy", "", bytes, seconds);
  }
  void add(const char* operation, const std::string& of, std::size_t bytes, double seconds) {
    const double rate = static_cast<double>(bytes) / seconds;
    std::printf("%-14s %-26s %10.1f %8.3f %7.1f%%\n", operation, of.c_str(),
                1e-6 * static_cast<double>(bytes), 1e-12 * rate, 100 * rate / copy_);
    rows_.push_back({{"operation", operation},
                     {of_, of},
                     {"bytes", bytes},
                     {"seconds", seconds},
                     {"bytes_per_second", rate},
                     {"of_copy", rate / copy_}});
  }
  [[nodiscard]] nlohmann::json json() const {
    return {{"samples", kSamples},
            {"calls_per_sample", kCalls},
            {"gpu", visible_gpus().front().name},
            {"versions", cuda_versions()},
            {"rows", rows_}};
  }

 private:
  std::string of_;
  double copy_ = 0;
  nlohmann::json rows_ = nlohmann::json::array();
};

}  // namespace zeropp::bench
