// A library with NVML's functions and one made-up GPU, which tests open in its place.
#include "tests/support/fake_nvml.hpp"

#include <atomic>
#include <cstring>
#include <mutex>

namespace {

constexpr int kNotFound = 6;
std::mutex mutex;
zeropp::test::FakeNvml behaviour;
unsigned int readings = 0;
std::atomic<int> open{0};
int gpu = 0;

struct Utilization {
  unsigned int gpu;
  unsigned int memory;
};

}  // namespace

extern "C" {

void fake_nvml_set(const zeropp::test::FakeNvml* wanted) {
  const std::lock_guard lock(mutex);
  behaviour = *wanted;
  readings = 0;
}
unsigned int fake_nvml_readings() {
  const std::lock_guard lock(mutex);
  return readings;
}
int fake_nvml_open() { return open; }

// NOLINTBEGIN(readability-identifier-naming): names of NVML.
int nvmlInit_v2() {
  const std::lock_guard lock(mutex);
  if (behaviour.start_status == 0) ++open;
  return behaviour.start_status;
}
int nvmlShutdown() {
  --open;
  return 0;
}
const char* nvmlErrorString(int status) {
  return status == kNotFound ? "Not Found" : "Driver Not Loaded";
}
int nvmlDeviceGetHandleByUUID(const char* uuid, void** handle) {
  if (std::strcmp(uuid, "GPU-fake") != 0) return kNotFound;
  *handle = &gpu;
  return 0;
}
int nvmlDeviceGetClockInfo(void* /*gpu*/, unsigned int type, unsigned int* megahertz) {
  const std::lock_guard lock(mutex);
  *megahertz = type == 1 ? 1980 - behaviour.clock_step * readings++ : 3201;
  return 0;
}
int nvmlDeviceGetPowerUsage(void* /*gpu*/, unsigned int* milliwatts) {
  const std::lock_guard lock(mutex);
  *milliwatts = 650500;
  return behaviour.power_status;
}
int nvmlDeviceGetTemperature(void* /*gpu*/, unsigned int /*sensor*/, unsigned int* degrees) {
  *degrees = 71;
  return 0;
}
int nvmlDeviceGetUtilizationRates(void* /*gpu*/, Utilization* use) {
  *use = {97, 40};
  return 0;
}
// The older of its two names.
int nvmlDeviceGetCurrentClocksThrottleReasons(void* /*gpu*/, unsigned long long* reasons) {
  const std::lock_guard lock(mutex);
  *reasons = behaviour.reasons;
  return 0;
}
// NOLINTEND(readability-identifier-naming)
}
