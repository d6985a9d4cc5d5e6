// ctest: name=comm_virtual_ranks labels=sanitize
// Virtual ranks: they take turns, agree, exchange messages in groups, and end together where one
// fails. The parameters of a training on them: tests/cli/virtual_ranks.py.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <limits>
#include <numeric>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "lib/comm/virtual_ranks.hpp"

namespace zeropp::comm {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

GroupOptions in_memory(int secondary_size = 0) {
  return {
      .secondary_size = secondary_size, .device = Device::host(), .transport = Transport::memory};
}

std::byte byte_of(int from, int to, int round, std::size_t at) {
  return static_cast<std::byte>((from * 31 + to * 7 + round * 3 + static_cast<int>(at) * 13) & 255);
}

/// Messages of one round between all ranks of a group, some of them empty and two of each pair.
class Rally {
 public:
  Rally(Communicator& group, int round) : group_(group), round_(round) {
    std::vector<Send> sends;
    std::vector<Receive> receives;
    out_.resize(2 * size());
    in_.resize(2 * size());
    for (std::size_t i = 0; i < 2 * size(); ++i) {
      const int peer = static_cast<int>(i % size());
      out_[i].resize(length(group.rank(), peer, i));
      for (std::size_t at = 0; at < out_[i].size(); ++at) {
        out_[i][at] = byte_of(group.rank(), peer, round, at + i / size());
      }
      in_[i].assign(length(peer, group.rank(), i), std::byte{0xA5});
      sends.push_back({out_[i].data(), out_[i].size(), peer});
      receives.push_back({in_[i].data(), in_[i].size(), peer});
      expected_.add(group.link_to(peer), out_[i].size());
    }
    work_ = group.exchange(sends, receives, {}, sent_);
  }

  void verify() {
    work_->wait({});
    EXPECT_EQ(sent_, expected_);
    for (std::size_t i = 0; i < in_.size(); ++i) {
      const int peer = static_cast<int>(i % size());
      for (std::size_t at = 0; at < in_[i].size(); ++at) {
        ASSERT_EQ(in_[i][at], byte_of(peer, group_.rank(), round_, at + i / size()))
            << group_.name() << " " << peer << " to " << group_.rank() << ", round " << round_;
      }
    }
  }

 private:
  [[nodiscard]] std::size_t size() const { return static_cast<std::size_t>(group_.size()); }
  [[nodiscard]] std::size_t length(int from, int to, std::size_t i) const {
    return static_cast<std::size_t>((from + 2 * to + round_) % 4) * (7 + i / size());
  }
  Communicator& group_;
  int round_;
  std::vector<std::vector<std::byte>> out_;
  std::vector<std::vector<std::byte>> in_;
  Bytes sent_;
  Bytes expected_;
  std::unique_ptr<Work> work_;
};

TEST(VirtualRanks, ExchangeInGroupsAsRealRanksDo) {
  for (const auto& [ranks, node_size] : {std::pair{1, 1}, {3, 1}, {4, 2}, {6, 3}, {8, 4}}) {
    VirtualRanks(ranks).run([&](World& world) {
      const Topology topology = world.set_topology(node_size);
      EXPECT_EQ(topology.node_count, ranks / node_size);
      EXPECT_TRUE(topology.virtual_ranks);
      EXPECT_EQ(world.host_ranks(), ranks);
      const Groups groups = world.make_groups(in_memory(node_size));
      const std::vector<Communicator*> all{groups.world.get(), groups.node.get(), groups.rail.get(),
                                           groups.secondary.get()};
      EXPECT_EQ(groups.node->rank(), topology.local_of(world.rank()));
      EXPECT_EQ(groups.rail->rank(), topology.node_of(world.rank()));
      // Several are in flight, and ranks wait for them in orders of their own.
      std::vector<std::unique_ptr<Rally>> rallies;
      for (int round = 0; round < 5; ++round) {
        for (Communicator* group : all) rallies.push_back(std::make_unique<Rally>(*group, round));
      }
      std::shuffle(rallies.begin(), rallies.end(),
                   std::mt19937(static_cast<unsigned>(world.rank())));
      for (const auto& rally : rallies) rally->verify();
    });
  }
}

TEST(VirtualRanks, ControlSumsInRankOrderAndKeepsNan) {
  constexpr int kRanks = 5;
  const std::vector<double> addends{1e16, 1.0, -1e16, 3.0, 0.1};
  double expected = 0;
  for (const double value : addends) expected += value;
  VirtualRanks(kRanks).run([&](World& world) {
    Control& control = world.control();
    const auto own = static_cast<std::size_t>(control.rank());
    std::vector<double> sum{addends[own]};
    control.all_reduce_sum(sum);
    EXPECT_EQ(sum[0], expected);
    std::vector<std::uint64_t> whole{own};
    control.all_reduce_sum(whole);
    EXPECT_EQ(whole[0], 10U);
    std::vector<double> most{static_cast<double>(own),
                             own == 2 ? std::numeric_limits<double>::quiet_NaN() : 0.0};
    control.all_reduce_max(most);
    EXPECT_EQ(most[0], 4);
    EXPECT_TRUE(std::isnan(most[1]));
    const std::vector<double> part{static_cast<double>(own)};
    EXPECT_THAT(control.all_gather(std::span(part)), ElementsAre(0, 1, 2, 3, 4));
    const std::vector<std::uint64_t> pair{own, 7};
    EXPECT_THAT(control.all_gather(std::span(pair)), ElementsAre(0, 7, 1, 7, 2, 7, 3, 7, 4, 7));
    EXPECT_EQ(control.broadcast(own == 0 ? "word" : "other"), "word");
    const auto texts = control.gather(std::string(own, 'x'));
    EXPECT_EQ(texts.size(), own == 0 ? 5U : 0U);
    if (own == 0) {
      EXPECT_EQ(texts[3], "xxx");
    }
  });
}

TEST(VirtualRanks, SplitIntoWorldsOfTheirOwn) {
  VirtualRanks(6).run([&](World& world) {
    const auto part = world.split(world.rank() % 2);
    EXPECT_EQ(part->size(), 3);
    EXPECT_EQ(part->rank(), world.rank() / 2);
    part->set_topology(0);
    const Groups groups = part->make_groups(in_memory());
    Rally(*groups.world, world.rank() % 2).verify();
  });
}

TEST(VirtualRanks, TakeTurns) {
  int running = 0;
  VirtualRanks(4).run([&](World& world) {
    for (int i = 0; i < 50; ++i) {
      EXPECT_EQ(++running, 1);
      --running;
      world.control().barrier();
    }
  });
}

TEST(VirtualRanks, AnErrorOfOneEndsAll) {
  int ended = 0;
  const auto failing = [&](World& world) {
    struct Count {
      int& count;
      ~Count() { ++count; }
    } counted{ended};
    world.set_topology(0);
    const Groups groups = world.make_groups(in_memory());
    Rally rally(*groups.world, 1);
    if (world.rank() == 2) throw Error(ExitCode::io, "the disk of rank 2 is full");
    rally.verify();
    world.control().barrier();
  };
  try {
    VirtualRanks(4).run(failing);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::io);
    EXPECT_THAT(error.what(), HasSubstr("rank 2"));
  }
  EXPECT_EQ(ended, 4);
}

TEST(VirtualRanks, AgreeOnTheLowestFailingRank) {
  try {
    VirtualRanks(3).run([](World& world) {
      std::optional<Error> status;
      if (world.rank() > 0) {
        status = Error(ExitCode::environment, "rank " + std::to_string(world.rank()));
      }
      world.control().agree(status);
    });
    FAIL();
  } catch (const AgreedError& error) {
    EXPECT_EQ(error.reporter(), 1);
    EXPECT_THAT(error.what(), HasSubstr("rank 1"));
  }
}

TEST(VirtualRanks, WaitingForNobodyIsAnErrorAndNoHang) {
  EXPECT_THROW(VirtualRanks(3).run([](World& world) {
    if (world.rank() > 0) world.control().barrier();
  }),
               std::logic_error);
}

/// Leaves this process `bytes` of address space beside what it has.
void leave_memory(std::size_t bytes) {
  std::size_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  const rlim_t limit = pages * static_cast<std::size_t>(sysconf(_SC_PAGESIZE)) + bytes;
  const rlimit both{limit, limit};
  ASSERT_EQ(setrlimit(RLIMIT_AS, &both), 0);
}

TEST(VirtualRanksDeathTest, AThreadThatCannotStartIsAnErrorOfAll) {
  const auto run = [](std::size_t bytes) {
    leave_memory(bytes);
    try {
      VirtualRanks(64).run([](World& world) { world.control().barrier(); });
    } catch (const Error& error) {
      std::cerr << error.what();
      std::_Exit(static_cast<int>(error.code()));
    }
    std::_Exit(0);
  };
  for (const std::size_t stacks : {1, 5, 20}) {  // of 8 MiB
    EXPECT_EXIT(run(stacks << 23U), testing::ExitedWithCode(3),
                "no thread for virtual rank .* of 64 .*--virtual-ranks");
  }
}

TEST(VirtualRanks, MessagesOfOtherSizesAreRefused) {
  const auto run = [](std::size_t received) {
    VirtualRanks(2).run([&](World& world) {
      world.set_topology(0);
      const Groups groups = world.make_groups(in_memory());
      std::vector<std::byte> memory(8);
      Bytes sent;
      const std::vector<Send> sends{{memory.data(), 4, 1}};
      const std::vector<Receive> receives{{memory.data(), received, 0}};
      const auto work = world.rank() == 0 ? groups.world->exchange(sends, {}, {}, sent)
                                          : groups.world->exchange({}, receives, {}, sent);
      work->wait({});
    });
  };
  run(4);
  for (const std::size_t other : {0, 3, 5}) EXPECT_THROW(run(other), Error) << other;
}

TEST(VirtualRanks, OthersTransportsAreRefused) {
  VirtualRanks(2).run([](World& world) {
    world.set_topology(0);
    EXPECT_THROW((void)world.make_groups({.device = Device::host()}), Error);
  });
}

}  // namespace
}  // namespace zeropp::comm
