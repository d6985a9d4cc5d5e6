// main() of the tests of one GPU in one process: skipped, with the reason, where there is none.
#include <gtest/gtest.h>

#include "kernels/core/host_runtime.hpp"
#include "lib/device/runtime.hpp"
#include "tests/support/gpu.hpp"

int main(int argc, char** argv) {
  using namespace zeropp;
  if (visible_gpus().empty()) {
    test::print_skipped(no_gpu_reason());
    return test::kSkipped;
  }
  use_gpu(0);
  const HostRuntime runtime;
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
