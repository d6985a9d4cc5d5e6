// What tests of the GPU share.
#pragma once

#include <cstdio>
#include <string>

namespace zeropp::test {

/// CTest's exit code of a test that was not run.
inline constexpr int kSkipped = 77;

inline void print_skipped(const std::string& reason) {
  std::printf("skipped: %s\n", reason.c_str());
}

}  // namespace zeropp::test
