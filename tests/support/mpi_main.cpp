// main() of the tests that run under mpirun. A rank whose test fails exits with 1, and with it
// mpirun.
#include <gtest/gtest.h>

#include <memory>

#include "kernels/core/host_runtime.hpp"
#include "tests/support/mpi_world.hpp"

namespace zeropp::test {
namespace {
std::unique_ptr<comm::World> instance;
}
comm::World& world() { return *instance; }
}  // namespace zeropp::test

int main(int argc, char** argv) {
  zeropp::test::instance = std::make_unique<zeropp::comm::World>(argc, argv);
  int status = 0;
  {
    const zeropp::HostRuntime runtime;
    testing::InitGoogleTest(&argc, argv);
    status = RUN_ALL_TESTS();
  }
  zeropp::test::instance.reset();
  return status;
}
