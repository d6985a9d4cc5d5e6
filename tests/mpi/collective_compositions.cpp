// ctest: name=collective_compositions np=1,3,4,6 cuda=mpi,nccl timeout=60 labels=sanitize
// All-reduce, all-to-all, several collectives in flight, and the secondary group.
#include <gtest/gtest.h>

#include "lib/collective/all_reduce.hpp"
#include "lib/collective/all_to_all.hpp"
#include "tests/support/collective_cases.hpp"
#include "tests/support/collective_oracle.hpp"

namespace zeropp::collective {
namespace {

using test::Cluster;
using test::Poisoned;

constexpr std::size_t kCount = 1009;

TEST(AllReduce, IsReduceScatterThenAllGather) {
  for (const int node_size : test::node_sizes()) {
    Cluster cluster(node_size);
    const auto n = static_cast<std::size_t>(cluster.size());
    for (const auto* reduction : reduce_scatter_algorithms()) {
      if (!test::worth_running(*reduction, node_size)) continue;
      for (const auto* gather : all_gather_algorithms()) {
        const auto codec = test::codecs_for(*reduction).back();
        AllReduce planned(plan_reduce_scatter(reduction->name, cluster.context(),
                                              {Parts::dense(kCount), Dtype::fp32, Dtype::fp32,
                                               codec, codec, 2, "test"}),
                          plan_all_gather(gather->name, cluster.context(),
                                          {Parts::dense(kCount), Dtype::fp32, {}, 2, "test"}),
                          kCount);
        Poisoned buffer(n * kCount, Dtype::fp32);
        for (std::size_t i = 0; i < n * kCount; ++i) {
          test::store(buffer.view, i, test::value_of(Dtype::fp32, cluster.rank(), i));
        }
        const test::OnDevice memory(buffer);
        const test::DeviceBytes workspace(planned.workspace_bytes());
        planned.start(memory.view, memory.view,
                      {workspace.span(), test::stream().handle()});  // in place
        planned.finish(test::stream().handle());
        buffer = memory.download();
        for (std::size_t p = 0; p < n; ++p) {
          const auto expected = test::Reduction{reduction->name, cluster.groups.topology,
                                                Dtype::fp32,     Dtype::fp32,
                                                kCount,          codec,
                                                codec,
                                                /*key=*/0}
                                    .sum(static_cast<int>(p));
          for (std::size_t e = 0; e < kCount; ++e) {
            const float got = test::load(buffer.view, p * kCount + e);
            if (reduction->traits.modelled) {
              ASSERT_NEAR(got, expected.values[e], expected.bound[e])
                  << reduction->name << " part " << p << " element " << e;
            } else {
              ASSERT_EQ(bits_of(got), bits_of(expected.values[e]))
                  << reduction->name << " then " << gather->name << " part " << p << " element "
                  << e << " on " << cluster.groups.topology.describe();
            }
          }
        }
      }
    }
  }
}

TEST(AllToAll, SwapsParts) {
  Cluster cluster(test::node_sizes().front());
  const auto n = static_cast<std::size_t>(cluster.size());
  for (const auto& codec : test::codecs()) {
    for (const Dtype dtype : test::kDtypes) {
      for (const std::size_t count : {std::size_t{0}, std::size_t{1}, kCount}) {
        for (const std::size_t depth : {1U, 3U}) {
          const Parts parts{count, count + 2};
          AllToAll planned(cluster.context(),
                           {parts, dtype, codec, test::depth_for(depth, codec), "test"});
          Poisoned in(n * parts.stride, dtype);
          for (std::size_t p = 0; p < n; ++p) {
            for (std::size_t e = 0; e < count; ++e) {
              test::store(in.view, p * parts.stride + e,
                          test::value_of(dtype, cluster.rank(), p * count + e));
            }
          }
          Poisoned wanted(n * parts.stride, dtype);
          for (std::size_t p = 0; p < n; ++p) {
            const auto part = test::through(
                codec, dtype, test::slice(dtype, static_cast<int>(p), cluster.rank(), count),
                draw_of(0, 0, p, static_cast<std::size_t>(cluster.rank()), 0));
            for (std::size_t e = 0; e < count; ++e) {
              test::store(wanted.view, p * parts.stride + e, part.values[e]);
            }
          }
          const test::OnDevice sent(in);
          const test::OnDevice received(n * parts.stride, dtype);
          const test::DeviceBytes workspace(planned.workspace_bytes());
          planned.start(sent.view, received.view, {workspace.span(), test::stream().handle()});
          planned.finish(test::stream().handle());
          const Poisoned out = received.download();
          ASSERT_EQ(out.bytes, wanted.bytes) << codec::to_string(codec) << " " << count;
        }
      }
    }
  }
}

TEST(Collectives, SeveralAreInFlight) {
  for (const int node_size : test::node_sizes()) {
    Cluster cluster(node_size);
    const auto n = static_cast<std::size_t>(cluster.size());
    const codec::CodecSpec codec{"int8", 32, {}};
    const AllGatherPlan gather_plan{Parts::dense(kCount), Dtype::fp32, codec, 3, "test"};
    const ReduceScatterPlan reduce_plan{
        Parts::dense(kCount), Dtype::fp32, Dtype::fp32, codec, codec, 3, "test"};
    const auto first = plan_all_gather("two-level", cluster.context(), gather_plan);
    const auto second = plan_reduce_scatter("2-hop", cluster.context(), reduce_plan);
    const auto third = plan_all_gather("flat", cluster.context(), gather_plan);

    Poisoned part(kCount, Dtype::fp32);
    Poisoned own(n * kCount, Dtype::fp32);
    for (std::size_t i = 0; i < n * kCount; ++i) {
      test::store(own.view, i, test::value_of(Dtype::fp32, cluster.rank(), i));
      if (i < kCount) test::store(part.view, i, test::value_of(Dtype::fp32, cluster.rank(), i));
    }
    const test::OnDevice part_in(part);
    const test::OnDevice own_in(own);
    const test::OnDevice one(n * kCount, Dtype::fp32);
    const test::OnDevice two(kCount, Dtype::fp32);
    const test::OnDevice three(n * kCount, Dtype::fp32);
    const test::DeviceBytes space_one(first->workspace_bytes());
    const test::DeviceBytes space_two(second->workspace_bytes());
    const test::DeviceBytes space_three(third->workspace_bytes());
    const StreamHandle stream = test::stream().handle();
    first->start(part_in.view, one.view, {space_one.span(), stream});
    second->start(own_in.view, two.view, {space_two.span(), stream});
    third->start(part_in.view, three.view, {space_three.span(), stream});
    third->finish(stream);
    first->finish(stream);
    second->finish(stream);
    EXPECT_EQ(one.memory.download(), three.memory.download());
    const Poisoned sum = two.download();
    const auto expected =
        test::Reduction{"2-hop", cluster.groups.topology, Dtype::fp32, Dtype::fp32, kCount, codec,
                        codec}
            .sum(cluster.rank());
    for (std::size_t e = 0; e < kCount; ++e) {
      ASSERT_EQ(bits_of(test::load(sum.view, e)), bits_of(expected.values[e]))
          << "element " << e << " on " << cluster.groups.topology.describe();
    }
  }
}

TEST(Collectives, RunInTheSecondaryGroup) {
  for (const int partition : test::node_sizes()) {
    Cluster cluster(test::node_sizes().back(), partition);
    const Context context{cluster.groups, *cluster.groups.secondary, cluster.recorder,
                          test::device()};
    const AllGatherPlan plan{Parts::dense(kCount), Dtype::bf16, {}, 1, "weights_secondary"};
    const auto planned = plan_all_gather("flat", context, plan);
    const auto full = test::run(*planned, plan, partition, cluster.rank(), Dtype::bf16);
    for (int member = 0; member < partition; ++member) {
      const int source = cluster.rank() / partition * partition + member;
      for (std::size_t e = 0; e < kCount; ++e) {
        ASSERT_EQ(test::load(full.view, static_cast<std::size_t>(member) * kCount + e),
                  test::value_of(Dtype::bf16, source, e));
      }
    }
    EXPECT_EQ(planned->row().group, "secondary");
  }
}

}  // namespace
}  // namespace zeropp::collective
