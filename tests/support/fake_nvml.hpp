// Interface between tests and the library that stands in for NVML (fake_nvml.cpp): what they tell
// it, and what it saw.
#pragma once

namespace zeropp::test {

/// Behaviour of the library; statuses are NVML's, 0 for success.
struct FakeNvml {
  int start_status = 0;
  int power_status = 0;
  unsigned long long reasons = 0;
  unsigned int clock_step = 0;  ///< MHz that the SM clock falls by with every reading
};

}  // namespace zeropp::test

extern "C" {
/// The only GPU is "GPU-fake": 1980 MHz, memory 3201 MHz, 650.5 W, 71 degrees, 97 % and 40 % used.
void fake_nvml_set(const zeropp::test::FakeNvml* behaviour);
/// The number of readings of the SM clock since fake_nvml_set().
unsigned int fake_nvml_readings();
/// Starts less stops since the program began.
int fake_nvml_open();
}
