// Conditions of tests of the GPU: whether they can run here.
#pragma once

#include <cstdio>
#include <string>

#include "lib/device/runtime.hpp"

namespace zeropp::test {

/// CTest's exit code of a test that was not run.
inline constexpr int kSkipped = 77;

inline void print_skipped(const std::string& reason) {
  std::printf("skipped: %s\n", reason.c_str());
}

/// Reason why a test that needs `needed` GPUs, one at least, cannot run here, or nothing.
inline std::string lacking_gpus(std::size_t needed) {
  const std::size_t visible = visible_gpus().size();
  if (visible == 0) return no_gpu_reason();
  if (visible >= needed) return {};
  return std::to_string(needed) + " GPUs are needed, " + std::to_string(visible) + " visible";
}

}  // namespace zeropp::test
