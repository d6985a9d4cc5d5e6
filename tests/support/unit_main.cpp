// main() of the tests that are one process.
#include <gtest/gtest.h>

#include "kernels/core/host_runtime.hpp"
#include "tests/support/test_files.hpp"

int main(int argc, char** argv) {
  const zeropp::HostRuntime runtime;
  testing::InitGoogleTest(&argc, argv);
  return zeropp::test::run_tests(argv[0]);
}
