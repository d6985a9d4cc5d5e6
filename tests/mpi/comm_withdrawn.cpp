// ctest: name=comm_withdrawn np=2 timeout=60
// Operations in flight when an exception passes: after their destruction MPI no longer writes into
// their memory, because the same stack frees the memory. Rank 0 throws; rank 1 has sent before, and
// continues. Messages are long, and MPI copies them piece by piece: rank 0 has the first piece when
// it begins to receive, and gets the others at its next call of MPI.
#include <gtest/gtest.h>

#include <algorithm>
#include <stdexcept>
#include <vector>

#include "tests/support/mpi_world.hpp"

namespace zeropp::comm {
namespace {

using test::world;

constexpr std::size_t kBytes = std::size_t{4} << 20U;
constexpr std::byte kFreed{0xA5};

/// Rank 0's part: `start` an operation, throw, and see that `memory` stays what it is from then on.
template <class Start>
void expect_withdrawn(std::vector<std::byte>& memory, Start&& start) {
  try {
    const auto work = start();
    throw std::runtime_error("an error of this rank alone");
  } catch (const std::runtime_error&) {
    std::ranges::fill(memory, kFreed);
  }
  world().control().barrier();
  EXPECT_EQ(std::ranges::count(memory, kFreed), static_cast<std::ptrdiff_t>(memory.size()));
}

TEST(Withdrawn, AMessageThatIsUnderWay) {
  world().set_topology(2);
  const Groups groups = world().make_groups();
  std::vector<std::byte> memory(kBytes, std::byte{1});
  Bytes sent;
  if (groups.world->rank() == 0) {
    world().control().barrier();  // after which the message has set out
    const Receive receive{memory.data(), kBytes, 1};
    expect_withdrawn(memory, [&] { return groups.world->exchange({}, {&receive, 1}, {}, sent); });
  } else {
    const Send send{memory.data(), kBytes, 0};
    const auto work = groups.world->exchange({&send, 1}, {}, {}, sent);
    world().control().barrier();
    work->wait({});  // rank 0 has all of it
    world().control().barrier();
  }
}

TEST(Withdrawn, ACollectiveThatIsUnderWay) {
  world().set_topology(2);
  const Groups groups = world().make_groups();
  std::vector<std::byte> memory(kBytes, std::byte{1});
  const View full(memory.data(), kBytes / sizeof(float), Dtype::fp32);
  const std::size_t half = full.count / 2;
  const int rank = groups.world->rank();
  const View own = full.part(static_cast<std::size_t>(rank) * half, half);
  if (rank == 0) {
    world().control().barrier();
    expect_withdrawn(memory, [&] {
      return groups.world->native_collective({NativeOp::all_gather, own, full}, {});
    });
  } else {
    const auto work = groups.world->native_collective({NativeOp::all_gather, own, full}, {});
    world().control().barrier();
    work->wait({});  // rank 0 has all of it
    world().control().barrier();
  }
}

/// Messages that nobody takes are given up.
TEST(Withdrawn, MessagesThatNobodyAnswers) {
  world().set_topology(2);
  const Groups groups = world().make_groups();
  std::vector<std::byte> memory(2 * kBytes, std::byte{1});
  Bytes sent;
  const int peer = 1 - groups.world->rank();
  const Send send{memory.data(), kBytes, peer};
  const Receive receive{memory.data() + kBytes, kBytes, peer};
  if (groups.world->rank() == 0) {
    expect_withdrawn(memory, [&] {
      return groups.world->exchange({&send, 1}, {&receive, 1}, {}, sent);
    });
  } else {
    world().control().barrier();
  }
}

}  // namespace
}  // namespace zeropp::comm
