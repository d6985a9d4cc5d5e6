// The NVIDIA Management Library, opened while the program runs: the same program runs where it is
// not installed. Its C interface is stable and small enough to be declared here; no header of it is
// needed. It asks the driver and never the GPU's queues: no call of CUDA, nothing that a stream
// waits for.
// Source: NVML API Reference Guide (names, numbers of clocks, sensors and clock event reasons).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace zeropp {

/// Reading of a GPU, as it tells of itself at one time. NaN: it does not tell.
struct GpuReading {
  double sm_clock = 0;            ///< MHz
  double memory_clock = 0;        ///< MHz
  double power = 0;               ///< W
  double temperature = 0;         ///< degrees Celsius, of the chip
  double utilization = 0;         ///< %, share of time in which a kernel ran
  double memory_utilization = 0;  ///< %, share of time in which its memory was read or written
  bool reasons_known = false;
  std::uint64_t reasons = 0;  ///< why clocks are not higher: bits of clock_reasons()
};

struct ClockReason {
  std::uint64_t bit;
  std::string_view name;
  bool holds_back;  ///< a limit that was reached; the others are idleness and settings
};
/// Every reason that NVML has a bit for.
const std::vector<ClockReason>& clock_reasons();
/// "sw_power_cap,hw_slowdown"; "" of none, "unknown" where the GPU does not tell.
std::string describe_reasons(const GpuReading& reading);

class Nvml {
 public:
  static constexpr const char* kLibrary = "libnvidia-ml.so.1";

  /// A name that the loader looks up, or a path. Throws Error(environment) with one line: it cannot
  /// be opened, lacks a function, or does not start.
  explicit Nvml(const std::string& library);
  ~Nvml();
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  /// A GPU by its UUID, "GPU-...". Valid as long as this. Throws Error(environment).
  [[nodiscard]] void* gpu(const std::string& uuid) const;
  /// Takes about a millisecond. From any thread, one at a time.
  [[nodiscard]] GpuReading read(void* gpu) const;

 private:
  struct Functions;
  std::unique_ptr<const Functions> functions_;
};

}  // namespace zeropp
