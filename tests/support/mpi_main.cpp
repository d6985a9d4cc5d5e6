// main() of the tests that run under mpirun. A rank whose test fails exits with 1, and with it
// mpirun. A fatal failure ends all ranks at once: the others may be waiting for this one.
#include <gtest/gtest.h>

#include <memory>

#include "kernels/core/host_runtime.hpp"
#include "tests/support/mpi_world.hpp"

namespace zeropp::test {
namespace {
std::unique_ptr<comm::World> instance;
}
comm::World& world() { return *instance; }

namespace {
class EndAllRanks : public testing::EmptyTestEventListener {
  void OnTestPartResult(const testing::TestPartResult& result) override {
    if (result.fatally_failed()) comm::World::abort(ExitCode::check_failed);
  }
};
}  // namespace
}  // namespace zeropp::test

int main(int argc, char** argv) {
  zeropp::test::instance = std::make_unique<zeropp::comm::World>(argc, argv);
  int status = 0;
  {
    const zeropp::HostRuntime runtime;
    testing::InitGoogleTest(&argc, argv);
    // After the printer of results; GoogleTest owns it.
    testing::UnitTest::GetInstance()->listeners().Append(new zeropp::test::EndAllRanks);
    status = RUN_ALL_TESTS();
  }
  zeropp::test::instance.reset();
  return status;
}
