// main() of the tests that are one process.
#include <gtest/gtest.h>

#include "kernels/core/host_runtime.hpp"

int main(int argc, char** argv) {
  const zeropp::HostRuntime runtime;
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
