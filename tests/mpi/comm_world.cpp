// ctest: name=comm_world np=1,3,4,6 cuda=mpi,nccl timeout=120 labels=sanitize
// The world: topology, groups, the control plane and agreement.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <span>

#include "lib/comm/world.hpp"
#include "tests/support/on_device.hpp"

namespace zeropp::comm {
namespace {

using test::world;

TEST(World, FindsOneNodeOnOneMachine) {
  const Topology& topology = world().set_topology(0);
  EXPECT_EQ(topology.world_size, world().size());
  EXPECT_EQ(topology.node_count, 1);
  EXPECT_EQ(topology.ranks_per_node, world().size());
  EXPECT_FALSE(topology.emulated);
}

TEST(World, RanksOfOneMachineAreCounted) {
  world().set_topology(1);
  EXPECT_EQ(world().host_ranks(), world().size()) << "whatever nodes are declared";
}

TEST(World, NcclRefusesHostMemory) {
  world().set_topology(1);
  try {
    (void)world().make_groups({.device = Device::host(), .transport = Transport::nccl});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::usage);
    EXPECT_THAT(error.what(), testing::HasSubstr("mpi"));
  }
}

TEST(World, DeclaredNodesGiveGroupsAndLinks) {
  const int n = world().size();
  for (int g = 1; g <= n; ++g) {
    if (n % g != 0) {
      EXPECT_THROW(world().set_topology(g), Error);
      continue;
    }
    const Topology topology = world().set_topology(g);
    EXPECT_TRUE(topology.emulated);
    EXPECT_EQ(topology.node_count, n / g);
    const int rank = world().control().rank();
    EXPECT_EQ(rank, world().rank()) << "declared nodes keep the launched order";
    const Groups groups = test::make_groups({.secondary_size = g});
    ASSERT_TRUE(groups.world && groups.node && groups.rail && groups.secondary);
    ASSERT_EQ(world().local_ranks().size(), static_cast<std::size_t>(n));
    for (int r = 0; r < n; ++r) {
      const LocalRank& local = world().local_ranks()[static_cast<std::size_t>(r)];
      EXPECT_EQ(local.node, topology.node_of(r));
      EXPECT_EQ(local.local, topology.local_of(r));
    }
    EXPECT_EQ(groups.world->size(), n);
    EXPECT_EQ(groups.world->rank(), rank);
    EXPECT_EQ(groups.node->size(), g);
    EXPECT_EQ(groups.node->rank(), topology.local_of(rank));
    EXPECT_EQ(groups.rail->size(), n / g);
    EXPECT_EQ(groups.rail->rank(), topology.node_of(rank));
    EXPECT_EQ(groups.secondary->size(), g);
    for (int peer = 0; peer < n; ++peer) {
      const LinkClass expected = peer == rank ? LinkClass::self
                                 : topology.node_of(peer) == topology.node_of(rank)
                                     ? LinkClass::intra_node
                                     : LinkClass::inter_node;
      EXPECT_EQ(groups.world->link_to(peer), expected);
    }
    for (int peer = 0; peer < n / g; ++peer) {
      EXPECT_EQ(groups.rail->link_to(peer),
                peer == topology.node_of(rank) ? LinkClass::self : LinkClass::inter_node);
    }
  }
}

TEST(World, GroupsAreMadeAgainAfterAnException) {
  world().set_topology(world().size());
  const auto share_rank = [](const Groups& groups) {
    const std::vector<float> own{static_cast<float>(groups.world->rank())};
    const test::DeviceBytes in(std::as_bytes(std::span(own)));
    const test::DeviceBytes out(in.size() * static_cast<std::size_t>(groups.world->size()));
    const View part(in.data(), 1, Dtype::fp32, test::device().memory);
    const View full(out.data(), static_cast<std::size_t>(groups.world->size()), Dtype::fp32,
                    test::device().memory);
    groups.world->native_collective({NativeOp::all_gather, part, full}, test::stream().handle())
        ->wait(test::stream().handle());
    const auto bytes = out.download();
    for (int r = 0; r < groups.world->size(); ++r) {
      float value = -1;
      std::memcpy(&value, bytes.data() + static_cast<std::size_t>(r) * sizeof(value),
                  sizeof(value));
      EXPECT_EQ(value, static_cast<float>(r));
    }
  };
  EXPECT_THROW(
      {
        const Groups groups = test::make_groups();
        share_rank(groups);
        throw Error(ExitCode::io, "elsewhere");
      },
      Error);
  share_rank(test::make_groups());
}

TEST(World, RefusalsNameTheRemedy) {
  const int n = world().size();
  try {
    world().set_topology(n + 1);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::environment);
    EXPECT_THAT(error.what(), testing::HasSubstr("divides"));
    EXPECT_THAT(error.what(), testing::Not(testing::HasSubstr("\n")));
  }
  EXPECT_THROW(world().set_topology(-1), Error);
  world().set_topology(n);
  EXPECT_THROW((void)world().make_groups({.secondary_size = n + 1}), Error);
  EXPECT_THROW((void)world().make_groups({.rail_lanes = 0}), Error);
  EXPECT_THROW((void)world().make_groups({.copy_engines = true}), Error) << "over MPI";
  EXPECT_THROW((void)world().make_groups({.max_message_bytes = 0}), Error);
}

TEST(Control, ReducesAndGathers) {
  Control& control = world().control();
  const int n = control.size();
  const int rank = control.rank();
  std::vector<double> sums{1.0, static_cast<double>(rank)};
  control.all_reduce_sum(sums);
  EXPECT_EQ(sums, (std::vector<double>{1.0 * n, n * (n - 1) / 2.0}));
  std::vector<std::uint64_t> counts{1, 0, static_cast<std::uint64_t>(rank)};
  control.all_reduce_sum(counts);
  EXPECT_EQ(counts[0], static_cast<std::uint64_t>(n));
  std::vector<double> maxima{-1.0 * rank, rank == n - 1 ? 7.0 : 3.0,
                             rank == n - 1 ? std::nan("") : 1.0};
  control.all_reduce_max(maxima);
  EXPECT_EQ(maxima[0], 0.0);
  EXPECT_EQ(maxima[1], 7.0);
  EXPECT_TRUE(std::isnan(maxima[2])) << "a NaN on one rank does not disappear";
  const std::vector<double> part{rank + 0.5, rank * 10.0};
  const auto all = control.all_gather(part);
  ASSERT_EQ(all.size(), 2U * static_cast<std::size_t>(n));
  for (int r = 0; r < n; ++r) EXPECT_EQ(all[static_cast<std::size_t>(2 * r)], r + 0.5);
  const auto texts = control.gather(std::string(static_cast<std::size_t>(rank * 3), 'x'));
  if (rank == 0) {
    ASSERT_EQ(texts.size(), static_cast<std::size_t>(n));
    for (int r = 0; r < n; ++r) EXPECT_EQ(texts[static_cast<std::size_t>(r)].size(), 3U * r);
  } else {
    EXPECT_TRUE(texts.empty());
  }
  EXPECT_EQ(control.broadcast(rank == 0 ? "from rank 0" : "from elsewhere"), "from rank 0");
  EXPECT_EQ(control.broadcast(""), "");
  control.barrier();
}

TEST(Control, AgreesOnTheLowestFailure) {
  Control& control = world().control();
  EXPECT_NO_THROW(control.agree(std::nullopt));
  const int n = control.size();
  const int rank = control.rank();
  for (int first = 0; first < n; ++first) {
    std::optional<Error> status;
    if (rank >= first) {
      status.emplace(rank == first ? ExitCode::io : ExitCode::usage,
                     "rank " + std::to_string(rank) + ": 2 of 3 files are missing");
    }
    try {
      control.agree(status);
      FAIL() << "agree() returned";
    } catch (const AgreedError& error) {
      EXPECT_EQ(error.code(), ExitCode::io);
      EXPECT_EQ(error.reporter(), first);
      EXPECT_EQ(error.what(), "rank " + std::to_string(first) + ": 2 of 3 files are missing");
    }
  }
}

TEST(World, NamesItsLibrary) {
  const std::string version = World::library_version();
  EXPECT_FALSE(version.empty());
  EXPECT_EQ(version.find('\n'), std::string::npos);
  EXPECT_EQ(version.find('\0'), std::string::npos);
}

}  // namespace
}  // namespace zeropp::comm
