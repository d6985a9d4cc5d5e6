// ctest: name=comm_exchange np=1,3,4,6 cuda=mpi,nccl timeout=120 labels=sanitize
// Point-to-point exchanges and the vendor's collectives of the communicators: MPI on host memory,
// MPI staged and NCCL on device memory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "lib/comm/nccl.hpp"
#include "lib/comm/world.hpp"
#include "tests/support/on_device.hpp"

namespace zeropp::comm {
namespace {

using test::DeviceBytes;
using test::OnDevice;
using test::Poisoned;
using test::world;

StreamHandle stream() { return test::stream().handle(); }
bool over_mpi() { return test::transport() == Transport::mpi; }

std::byte byte_of(int source, int destination, std::size_t at, int round) {
  return static_cast<std::byte>((source * 31 + destination * 7 + round * 3 + at * 13) & 0xFFU);
}

/// Every rank sends `bytes(source, destination)` bytes to every rank, itself included.
struct Rally {
  Rally(Communicator& comm, int round_, std::size_t scale) : round(round_) {
    const int n = comm.size();
    const auto length = [&](int source, int destination) {
      return scale *
             static_cast<std::size_t>((source + 2 * destination + round) % 4);  // some empty
    };
    for (int peer = 0; peer < n; ++peer) {
      std::vector<std::byte> message(length(comm.rank(), peer));
      for (std::size_t i = 0; i < message.size(); ++i) {
        message[i] = byte_of(comm.rank(), peer, i, round);
      }
      out.emplace_back(message);
      in.emplace_back(length(peer, comm.rank()));
    }
    std::vector<Send> sends;
    std::vector<Receive> receives;
    for (int peer = 0; peer < n; ++peer) {
      const auto p = static_cast<std::size_t>(peer);
      sends.push_back({out[p].data(), out[p].size(), peer});
      receives.push_back({in[p].data(), in[p].size(), peer});
      expected.add(comm.link_to(peer), out[p].size());
    }
    work = comm.exchange(sends, receives, stream(), sent);
  }
  void verify(const Communicator& comm) {
    work->wait(stream());
    EXPECT_EQ(sent, expected);
    for (std::size_t source = 0; source < in.size(); ++source) {
      const auto message = in[source].download();
      for (std::size_t i = 0; i < message.size(); ++i) {
        ASSERT_EQ(message[i], byte_of(static_cast<int>(source), comm.rank(), i, round))
            << "byte " << i << " of " << message.size() << " from rank " << source << " of group "
            << comm.name() << " to " << comm.rank() << ", round " << round;
      }
    }
  }
  int round;
  std::vector<DeviceBytes> out, in;
  Bytes sent, expected;
  std::unique_ptr<Work> work;
};

TEST(Exchange, SeveralInFlightWithSplitAndEmptyMessages) {
  const int n = world().size();
  std::vector<std::size_t> limits{std::size_t{1} << 30U};
  if (over_mpi()) limits.insert(limits.end(), {64, 1});  // NCCL splits nothing
  for (int g = 1; g <= n; ++g) {
    if (n % g != 0) continue;
    world().set_topology(g);
    for (const std::size_t limit : limits) {
      const Groups groups = test::make_groups({.max_message_bytes = limit});
      std::vector<std::unique_ptr<Rally>> rallies;
      for (int round = 0; round < 3; ++round) {
        for (Communicator* comm : {groups.world.get(), groups.node.get(), groups.rail.get()}) {
          rallies.push_back(std::make_unique<Rally>(*comm, round, limit == 1 ? 5U : 333U));
        }
      }
      // Exchanges complete in another order than they were started in.
      for (std::size_t i = rallies.size(); i-- > 0;) {
        Communicator* comms[] = {groups.world.get(), groups.node.get(), groups.rail.get()};
        rallies[i]->verify(*comms[i % 3]);
      }
    }
  }
}

TEST(Exchange, LanesOfARailCarryOneMessage) {
  if (over_mpi()) GTEST_SKIP() << "MPI has no lanes";
  const int n = world().size();
  for (int g = 1; g < n; ++g) {
    if (n % g != 0) continue;
    world().set_topology(g);
    const Groups groups = test::make_groups({.rail_lanes = 3});
    Communicator& rail = g == 1 ? *groups.world : *groups.rail;  // where a node has one rank
    // Slices of 128 KiB: messages of none, one, and three lanes, the last one short.
    for (const std::size_t scale : {std::size_t{1000}, std::size_t{200'001}}) {
      std::vector<std::unique_ptr<Rally>> rallies;
      for (int round = 0; round < 3; ++round) {
        rallies.push_back(std::make_unique<Rally>(rail, round, scale));
      }
      for (const auto& rally : rallies) rally->verify(rail);
    }
  }
}

/// Pieces of one size to and from everyone, in memory that the group has registered.
struct Pieces {
  Pieces(const Groups& groups, const Communicator& comm, std::size_t bytes_)
      : size(static_cast<std::size_t>(comm.size())),
        rank(comm.rank()),
        bytes(bytes_),
        memory(groups.make_memory(2 * size * bytes)),
        registered(groups.register_memory(memory, test::world().control())) {
    test::device().runtime->fill(memory.data(), memory.bytes(), memory.kind(), std::byte{0xEE});
  }
  [[nodiscard]] std::byte* out() const { return memory.data(); }
  [[nodiscard]] std::byte* in() const { return memory.data() + size * bytes; }
  /// Puts what rank `source` sends to `destination` into device memory.
  void put(std::byte* to, int source, int destination) const {
    std::vector<std::byte> values(bytes);
    for (std::size_t i = 0; i < bytes; ++i) values[i] = byte_of(source, destination, i, 0);
    test::stream().copy(to, values.data(), bytes);
    test::stream().synchronize();
  }
  void expect(const std::byte* from, int source, int destination) const {
    std::vector<std::byte> values(bytes);
    test::stream().copy(values.data(), from, bytes);
    test::stream().synchronize();
    for (std::size_t i = 0; i < bytes; ++i) {
      ASSERT_EQ(values[i], byte_of(source, destination, i, 0))
          << "byte " << i << " of " << bytes << " from " << source << " to " << destination;
    }
  }
  std::size_t size;
  int rank;
  std::size_t bytes;
  Buffer memory;
  std::vector<std::unique_ptr<RegisteredMemory>> registered;
};

/// Short pieces go by messages, long ones by copy engines where there are any: each arrives.
TEST(Exchange, PiecesOfOneSizeToEveryone) {
  const int n = world().size();
  for (int g = 1; g <= n; ++g) {
    if (n % g != 0) continue;
    world().set_topology(g);
    for (const bool engines : {false, true}) {
      if (engines && (over_mpi() || !nccl_has_copy_engines())) continue;
      const Groups groups = test::make_groups({.copy_engines = engines});
      for (Communicator* comm : {groups.world.get(), groups.node.get(), groups.rail.get()}) {
        for (const std::size_t bytes : {std::size_t{48}, (std::size_t{4} << 20U) + 16}) {
          Bytes expected;
          for (int peer = 0; peer < comm->size(); ++peer) expected.add(comm->link_to(peer), bytes);
          const Pieces pieces(groups, *comm, bytes);
          const auto at = [&](std::byte* first, int peer) {
            return first + static_cast<std::size_t>(peer) * bytes;
          };
          for (int peer = 0; peer < comm->size(); ++peer) {
            pieces.put(at(pieces.out(), peer), comm->rank(), peer);
          }
          Bytes swapped;
          comm->exchange_equal(pieces.out(), pieces.in(), bytes, stream(), swapped)->wait(stream());
          EXPECT_EQ(swapped, expected);
          for (int peer = 0; peer < comm->size(); ++peer) {
            pieces.expect(at(pieces.in(), peer), peer, comm->rank());
          }
          Bytes shared;
          pieces.put(at(pieces.out(), comm->rank()), comm->rank(), 99);
          comm->all_gather_in_place(pieces.out(), bytes, bytes, stream(), shared)->wait(stream());
          EXPECT_EQ(shared, expected);
          for (int peer = 0; peer < comm->size(); ++peer) {
            pieces.expect(at(pieces.out(), peer), peer, 99);
          }
        }
      }
    }
  }
}

TEST(Exchange, PiecesThatDoNotTouch) {
  world().set_topology(world().size());
  const Groups groups = test::make_groups();
  const Communicator& comm = *groups.world;
  const Pieces pieces(groups, comm, 64);  // of 24 bytes, every 64
  const auto own = static_cast<std::size_t>(comm.rank());
  pieces.put(pieces.out() + own * 64, comm.rank(), 5);
  test::device().runtime->fill(pieces.out() + own * 64 + 24, 40, pieces.memory.kind(),
                               std::byte{0xEE});
  Bytes sent;
  groups.world->all_gather_in_place(pieces.out(), 64, 24, stream(), sent)->wait(stream());
  std::vector<std::byte> all(pieces.size * 64);
  test::stream().copy(all.data(), pieces.out(), all.size());
  test::stream().synchronize();
  for (std::size_t i = 0; i < all.size(); ++i) {
    ASSERT_EQ(all[i],
              i % 64 < 24 ? byte_of(static_cast<int>(i / 64), 5, i % 64, 0) : std::byte{0xEE})
        << i;
  }
}

TEST(Exchange, SelfMessagesAreCopiedAndNotCounted) {
  world().set_topology(world().size());
  const Groups groups = test::make_groups();
  const int self = groups.world->rank();
  const std::vector<std::byte> message(8, std::byte{7});
  const DeviceBytes out(message);
  const DeviceBytes in(8);
  Bytes sent;
  const std::vector<Send> sends{{out.data(), 8, self}};
  const std::vector<Receive> receives{{in.data(), 8, self}};
  groups.world->exchange(sends, receives, stream(), sent)->wait(stream());
  EXPECT_EQ(in.download(), message);
  EXPECT_EQ(sent, Bytes{});
  const std::vector<Receive> shorter{{in.data(), 4, self}};
  EXPECT_THROW((void)groups.world->exchange(sends, shorter, stream(), sent), Error);
}

TEST(Exchange, TruncationIsAnErrorOfOneLine) {
  if (world().size() < 2) GTEST_SKIP() << "needs two ranks";
  if (!over_mpi()) GTEST_SKIP() << "NCCL does not compare the sizes of the two sides";
  world().set_topology(world().size());
  const Groups groups = test::make_groups();
  const int rank = groups.world->rank();
  const DeviceBytes memory(64);
  Bytes sent;
  std::vector<Send> sends;
  std::vector<Receive> receives;
  if (rank == 0) sends.push_back({memory.data(), 64, 1});
  if (rank == 1) receives.push_back({memory.data(), 16, 0});
  auto work = groups.world->exchange(sends, receives, stream(), sent);
  if (rank != 1) {
    work->wait(stream());
    return;
  }
  try {
    work->wait(stream());
    FAIL() << "a message longer than its receive was accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::environment);
    EXPECT_THAT(error.what(), testing::HasSubstr("mpi_communicator.cpp"));
    EXPECT_THAT(error.what(), testing::Not(testing::HasSubstr("\n")));
  }
}

TEST(WorkDeathTest, DroppedOperationTerminates) {
  if (world().size() > 1) GTEST_SKIP() << "one process is enough: forks under mpirun are not";
  if (test::device().backend != Backend::host) GTEST_SKIP() << "a fork has no GPU";
  world().set_topology(1);
  const Groups groups = test::make_groups();
  testing::FLAGS_gtest_death_test_style = "fast";
  Bytes sent;
  EXPECT_DEATH((void)groups.world->exchange({}, {}, {}, sent), "dropped");
}

TEST(Work, MayBeDroppedByAnException) {
  world().set_topology(world().size());
  const Groups groups = test::make_groups();
  Bytes sent;
  EXPECT_THROW(
      {
        const auto work = groups.world->exchange({}, {}, stream(), sent);
        throw Error(ExitCode::io, "elsewhere");
      },
      Error);
}

class Native : public testing::TestWithParam<Dtype> {};

TEST_P(Native, CollectivesAgreeWithAReference) {
  const Dtype dtype = GetParam();
  world().set_topology(world().size());
  const Groups groups = test::make_groups();
  Communicator& comm = *groups.world;
  const auto n = static_cast<std::size_t>(comm.size());
  const int rank = comm.rank();
  const auto r = static_cast<std::size_t>(rank);
  // Rounding of every partial sum; 0 in the format's unit for fp32 sums of few terms is too strict.
  const double unit = dtype == Dtype::fp32 ? 0x1p-23 : dtype == Dtype::bf16 ? 0x1p-8 : 0x1p-10;
  for (const std::size_t count : {0U, 1U, 7U, 1009U}) {
    Poisoned part(count, dtype);
    for (std::size_t i = 0; i < count; ++i) {
      test::store(part.view, i, test::value_of(dtype, rank, i));
    }
    const OnDevice part_in(part);
    const OnDevice gathered(n * count, dtype);
    comm.native_collective({NativeOp::all_gather, part_in.view, gathered.view}, stream())
        ->wait(stream());
    const Poisoned full = gathered.download();
    for (std::size_t i = 0; i < n * count; ++i) {
      ASSERT_EQ(test::load(full.view, i),
                test::value_of(dtype, static_cast<int>(i / count), i % count))
          << "all-gather of " << count << ", element " << i;
    }
    Poisoned own(n * count, dtype);
    for (std::size_t i = 0; i < n * count; ++i) {
      test::store(own.view, i, test::value_of(dtype, rank, i));
    }
    const auto near_sum = [&](float value, std::size_t element) {
      double sum = 0;
      double magnitude = 0;
      for (int source = 0; source < comm.size(); ++source) {
        sum += test::value_of(dtype, source, element);
        magnitude += std::abs(test::value_of(dtype, source, element));
      }
      return std::abs(value - sum) <= unit * magnitude * static_cast<double>(n);
    };
    const OnDevice own_in(own);
    const OnDevice reduced_out(count, dtype);
    comm.native_collective({NativeOp::reduce_scatter, own_in.view, reduced_out.view}, stream())
        ->wait(stream());
    const Poisoned reduced = reduced_out.download();
    for (std::size_t i = 0; i < count; ++i) {
      const float got = test::load(reduced.view, i);
      ASSERT_TRUE(near_sum(got, r * count + i)) << "reduce-scatter, element " << i << ": " << got;
    }
    const OnDevice exchanged_out(n * count, dtype);
    comm.native_collective({NativeOp::all_to_all, own_in.view, exchanged_out.view}, stream())
        ->wait(stream());
    const Poisoned exchanged = exchanged_out.download();
    for (std::size_t i = 0; i < n * count; ++i) {
      ASSERT_EQ(test::load(exchanged.view, i),
                test::value_of(dtype, static_cast<int>(i / count), r * count + i % count))
          << "all-to-all of " << count << ", element " << i;
    }
    const int root = static_cast<int>(count) % comm.size();
    const OnDevice spread(n * count, dtype);
    comm.native_collective({NativeOp::broadcast, own_in.view, spread.view, root}, stream())
        ->wait(stream());
    const Poisoned everybodys = spread.download();
    for (std::size_t i = 0; i < n * count; ++i) {
      ASSERT_EQ(test::load(everybodys.view, i), test::value_of(dtype, root, i))
          << "broadcast of " << n * count << ", element " << i;
    }
    const OnDevice total(n * count, dtype);
    comm.native_collective({NativeOp::all_reduce, own_in.view, total.view}, stream())
        ->wait(stream());
    comm.native_collective({NativeOp::all_reduce, own_in.view, own_in.view}, stream())
        ->wait(stream());  // in place
    const Poisoned everywhere = total.download();
    const Poisoned in_place = own_in.download();
    for (std::size_t i = 0; i < n * count; ++i) {
      const float got = test::load(everywhere.view, i);
      ASSERT_TRUE(near_sum(got, i)) << "all-reduce, element " << i << ": " << got;
      const float replaced = test::load(in_place.view, i);
      ASSERT_TRUE(near_sum(replaced, i)) << "in place, element " << i << ": " << replaced;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Dtypes, Native, testing::Values(Dtype::fp32, Dtype::bf16, Dtype::fp16),
                         [](const auto& tested) { return std::string(name_of(tested.param)); });

TEST(NativeRefusal, TooManyElementsAndUnequalParts) {
  world().set_topology(world().size());
  const Groups groups = test::make_groups();
  const std::size_t n = static_cast<std::size_t>(world().size());
  float value = 0;  // never read: the call is refused first
  const auto view = [&](std::size_t count, MemoryKind kind) {
    return View(&value, count, Dtype::fp32, kind);
  };
  const MemoryKind own = test::device().memory;
  if (over_mpi()) {
    const std::size_t count = (std::size_t{1} << 31U) / n + 1;
    try {
      (void)groups.world->native_collective(
          {NativeOp::all_gather, view(count, own), view(n * count, own)}, stream());
      FAIL();
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr("other than native"));
    }
  }
  EXPECT_THROW((void)groups.world->native_collective(
                   {NativeOp::all_gather, view(1, own), view(n + 1, own)}, stream()),
               Error);
  const MemoryKind other = own == MemoryKind::host ? MemoryKind::device : MemoryKind::host;
  EXPECT_THROW((void)groups.world->native_collective(
                   {NativeOp::all_reduce, view(1, other), view(1, other)}, stream()),
               Error);
}

}  // namespace
}  // namespace zeropp::comm
