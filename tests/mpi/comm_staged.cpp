// ctest: name=comm_staged np=1,3 timeout=60 labels=sanitize
// The staging of device memory, tried on host memory that goes by the name of a device's: needs no
// GPU.
#include <gtest/gtest.h>
#include <mpi.h>

#include "lib/comm/mpi_communicator.hpp"
#include "lib/comm/staged_communicator.hpp"
#include "tests/support/late_runtime.hpp"
#include "tests/support/mpi_world.hpp"
#include "tests/support/patterns.hpp"

namespace zeropp::comm {
namespace {

float value(int rank, std::size_t i) {
  return static_cast<float>(rank) * 1000 + static_cast<float>(i);
}

/// Host memory under the name of a device's, with the values of `rank`.
struct Declared : test::Poisoned {
  Declared(std::size_t count, int rank) : Poisoned(count, Dtype::fp32) {
    view.kind = MemoryKind::device;
    for (std::size_t i = 0; i < count; ++i) test::store(view, i, value(rank, i));
  }
};

class Staged : public testing::Test {
 protected:
  static constexpr std::size_t kCount = 1009;

  int rank() { return comm.rank(); }
  std::size_t size() { return static_cast<std::size_t>(comm.size()); }
  /// part p of `whole` holds element first + e of rank p's values
  void expect_parts(const ConstView& whole, std::size_t first) {
    for (std::size_t i = 0; i < whole.count; ++i) {
      ASSERT_EQ(test::load(whole, i), value(static_cast<int>(i / kCount), first + i % kCount))
          << "element " << i;
    }
  }
  float sum(std::size_t i) {
    float total = 0;
    for (int r = 0; r < comm.size(); ++r) total += value(r, i);
    return total;
  }

  static std::unique_ptr<Communicator> host() {
    MPI_Comm copy = MPI_COMM_NULL;
    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    std::vector<LinkClass> links(static_cast<std::size_t>(test::world().size()),
                                 LinkClass::intra_node);
    links[static_cast<std::size_t>(test::world().rank())] = LinkClass::self;
    return std::make_unique<MpiCommunicator>("world", CommHandle(copy), std::move(links), 1000U);
  }
  StagedCommunicator comm{host(), Device::host(), MemoryKind::host};
};

TEST_F(Staged, ExchangesInFlightKeepTheirMemory) {
  const int n = comm.size();
  const Declared out(kCount, rank());
  std::vector<Declared> in;
  std::vector<std::unique_ptr<Work>> works;
  Bytes sent;
  for (int round = 0; round < 3; ++round) {
    in.emplace_back(size() * kCount, -1);
    std::vector<Send> sends;
    std::vector<Receive> receives;
    for (int peer = 0; peer < n; ++peer) {
      sends.push_back({out.bytes.data(), kCount * 4, peer});
      receives.push_back(
          {in.back().bytes.data() + static_cast<std::size_t>(peer) * kCount * 4, kCount * 4, peer});
    }
    works.push_back(comm.exchange(sends, receives, {}, sent));
  }
  for (auto work = works.rbegin(); work != works.rend(); ++work) (*work)->wait({});
  for (const Declared& whole : in) expect_parts(whole.view, 0);
  EXPECT_EQ(sent, (Bytes{3 * (size() - 1) * kCount * 4, 0}));
}

TEST_F(Staged, AllGatherAlsoInPlace) {
  const Declared part(kCount, rank());
  const Declared full(size() * kCount, -1);
  comm.native_collective({NativeOp::all_gather, part.view, full.view}, {})->wait({});
  expect_parts(full.view, 0);
  Declared inside(size() * kCount, -1);
  const View own = inside.view.part(static_cast<std::size_t>(rank()) * kCount, kCount);
  for (std::size_t i = 0; i < kCount; ++i) test::store(own, i, value(rank(), i));
  comm.native_collective({NativeOp::all_gather, own, inside.view}, {})->wait({});
  expect_parts(inside.view, 0);
}

TEST_F(Staged, Reductions) {
  const Declared full(size() * kCount, rank());
  const Declared part(kCount, -1);
  comm.native_collective({NativeOp::reduce_scatter, full.view, part.view}, {})->wait({});
  for (std::size_t i = 0; i < kCount; ++i) {
    ASSERT_EQ(test::load(part.view, i), sum(static_cast<std::size_t>(rank()) * kCount + i)) << i;
  }
  const Declared everywhere(size() * kCount, -1);
  comm.native_collective({NativeOp::all_reduce, full.view, everywhere.view}, {})->wait({});
  comm.native_collective({NativeOp::all_reduce, full.view, full.view}, {})->wait({});  // in place
  for (std::size_t i = 0; i < full.view.count; ++i) {
    ASSERT_EQ(test::load(everywhere.view, i), sum(i));
    ASSERT_EQ(test::load(full.view, i), sum(i));
  }
}

TEST_F(Staged, Broadcast) {
  for (int root = 0; root < comm.size(); ++root) {
    const Declared in(kCount, rank());
    const Declared out(kCount, -1);
    comm.native_collective({NativeOp::broadcast, in.view, out.view, root}, {})->wait({});
    comm.native_collective({NativeOp::broadcast, in.view, in.view, root}, {})
        ->wait({});  // in place
    for (std::size_t i = 0; i < kCount; ++i) {
      ASSERT_EQ(test::load(out.view, i), value(root, i));
      ASSERT_EQ(test::load(in.view, i), value(root, i));
    }
  }
}

TEST_F(Staged, AllToAll) {
  const Declared in(size() * kCount, rank());
  const Declared out(size() * kCount, -1);
  comm.native_collective({NativeOp::all_to_all, in.view, out.view}, {})->wait({});
  expect_parts(out.view, static_cast<std::size_t>(rank()) * kCount);
}

/// Messages to the own rank alone take no staging memory, and the host waits for nothing.
TEST_F(Staged, MessagesToTheOwnRankAreThereForWhoeverWaits) {
  const Device device = test::LateRuntime::device("start");
  StagedCommunicator late{host(), device, MemoryKind::host};
  const Stream start = device.make_stream("start");
  const Stream other = device.make_stream("other");
  const Declared out(kCount, rank());
  const Declared in(kCount, -1);
  const Send send{out.bytes.data(), out.bytes.size(), rank()};
  const Receive receive{in.view.as<std::byte>(), in.bytes.size(), rank()};
  Bytes sent;
  const auto work = late.exchange({&send, 1}, {&receive, 1}, start.handle(), sent);
  work->wait(other.handle());
  for (std::size_t i = 0; i < kCount; ++i) ASSERT_EQ(test::load(in.view, i), value(rank(), i)) << i;
  EXPECT_EQ(sent, Bytes{});
  test::LateRuntime::finish();
}

TEST_F(Staged, RefusesHostMemory) {
  const test::Poisoned host(kCount, Dtype::fp32);
  EXPECT_THROW((void)comm.native_collective({NativeOp::all_reduce, host.view, host.view}, {}),
               Error);
}

}  // namespace
}  // namespace zeropp::comm
