// main() of the tests that run under mpirun. A rank whose test fails exits with 1, and with it
// mpirun. A fatal failure ends all ranks at once: the others may be waiting for this one.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <tuple>

#include "kernels/core/host_runtime.hpp"
#include "tests/support/gpu.hpp"
#include "tests/support/host_rank.hpp"
#include "tests/support/mpi_world.hpp"
#include "tests/support/test_files.hpp"

namespace zeropp::test {
namespace {
std::unique_ptr<comm::World> instance;
Device chosen_device;
comm::Transport chosen_transport = comm::Transport::mpi;
/// Groups by node size, secondary and shard size, largest message, copy engines and copy.
std::map<std::tuple<int, int, int, std::size_t, bool, int>, comm::Groups> kept;
}  // namespace
comm::World& world() { return *instance; }
const Device& device() { return chosen_device; }
comm::Transport transport() { return chosen_transport; }

std::vector<int> node_sizes() {
  std::vector<int> sizes;
  for (int size = 1; size <= world().size(); ++size) {
    if (world().size() % size == 0) sizes.push_back(size);
  }
  return sizes;
}

comm::Groups& kept_groups(int node_size, const comm::GroupOptions& options, int copy) {
  world().set_topology(node_size);
  const std::tuple key{node_size,
                       options.secondary_size,
                       options.shard_size,
                       options.max_message_bytes,
                       options.copy_engines,
                       copy};
  const auto found = kept.find(key);
  return found != kept.end() ? found->second
                             : kept.emplace(key, make_groups(options)).first->second;
}

namespace {
class EndAllRanks : public testing::EmptyTestEventListener {
  void OnTestPartResult(const testing::TestPartResult& result) override {
    if (result.fatally_failed()) comm::World::abort(ExitCode::check_failed);
  }
};

/// The reason why the launcher cannot belong to the linked MPI, or nothing. CTest sets
/// ZEROPP_TEST_RANKS to the number of ranks that it requests: under another MPI's launcher each
/// rank is its own world, and would pass.
std::string wrong_launcher() {
  const char* const asked = std::getenv("ZEROPP_TEST_RANKS");
  const std::string size = std::to_string(world().size());
  if (asked == nullptr || size == asked) return {};
  return std::string(asked) + " ranks were started, the world has " + size +
         ": configure with the launcher of the MPI that is linked (-DMPIEXEC_EXECUTABLE=PATH)";
}

/// ZEROPP_TEST_DEVICE is "host" (or unset), "cuda-mpi" or "cuda-nccl". Returns why the machine
/// cannot run the test, or nothing.
std::string choose_device() {
  const char* const value = std::getenv("ZEROPP_TEST_DEVICE");
  const std::string wanted = value == nullptr ? "host" : value;
  chosen_device = Device::host();
  if (wanted == "host") return {};
  if (wanted == "cuda-nccl") chosen_transport = comm::Transport::nccl;
  const int ranks = chosen_transport == comm::Transport::nccl ? world().host_ranks() : 1;
  const int host_rank = test::host_rank();  // of all ranks, whatever each sees
  std::string reason = lacking_gpus(static_cast<std::size_t>(ranks));
  if (reason.empty()) {
    chosen_device = Device::cuda(host_rank % static_cast<int>(visible_gpus().size()));
  }
  return reason;
}
}  // namespace
}  // namespace zeropp::test

int main(int argc, char** argv) {
  using namespace zeropp;
  test::instance = std::make_unique<comm::World>(argc, argv);
  int status = 0;
  if (const std::string mistake = test::wrong_launcher(); !mistake.empty()) {
    std::fprintf(stderr, "error: %s\n", mistake.c_str());
    status = static_cast<int>(ExitCode::environment);
  } else if (const std::string reason = test::choose_device(); !reason.empty()) {
    if (test::world().rank() == 0) test::print_skipped(reason);
    status = test::kSkipped;
  } else {
    const HostRuntime runtime;
    testing::InitGoogleTest(&argc, argv);
    // The listener comes after the printer of results; GoogleTest owns it.
    testing::UnitTest::GetInstance()->listeners().Append(new test::EndAllRanks);
    status = test::run_tests(argv[0]);
  }
  test::kept.clear();
  test::instance.reset();
  return status;
}
