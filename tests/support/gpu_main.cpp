// main() of the tests of one GPU in one process: skipped, with the reason, where there is none.
#include <gtest/gtest.h>

#include <string>

#include "kernels/core/host_runtime.hpp"
#include "lib/comm/program_environment.hpp"
#include "lib/device/runtime.hpp"
#include "tests/support/gpu.hpp"
#include "tests/support/test_files.hpp"

int main(int argc, char** argv) {
  using namespace zeropp;
  comm::set_cuda_environment();
  if (const std::string reason = test::lacking_gpus(1); !reason.empty()) {
    test::print_skipped(reason);
    return test::kSkipped;
  }
  use_gpu(0);
  const HostRuntime runtime;
  testing::InitGoogleTest(&argc, argv);
  return test::run_tests(argv[0]);
}
