// ctest: name=wire_messages np=1,4 timeout=120 labels=sanitize with=support/pmpi_counter.cpp
// Messages that a plan predicts, beside the sends that MPI was given, seen from its profiling
// interface: of every algorithm by itself, and of whole steps of the engine.
#include <gtest/gtest.h>

#include "lib/zero/plan/rank_plan.hpp"
#include "tests/support/collective_cases.hpp"
#include "tests/support/engine_case.hpp"
#include "tests/support/pmpi_counter.hpp"

namespace zeropp {
namespace {

using collective::Messages;

/// Sends that MPI got since the last call, by link class.
Messages seen_by_mpi(int node_size) {
  const test::PmpiCounts counts = test::take_pmpi_counts();
  const int self = test::world().rank();
  Messages sum;
  for (int to = 0; to < test::world().size(); ++to) {
    (to / node_size == self / node_size ? sum.intra : sum.inter) +=
        counts.sends_to[static_cast<std::size_t>(to)];
  }
  return sum;
}

/// Values of a part: none, less than a block, and enough for every chunk of a pipeline.
constexpr std::size_t kCounts[] = {0, 7, 20'011};
constexpr std::size_t kDepths[] = {1, 3};

TEST(Messages, OfEveryAllGather) {
  for (const int node_size : test::node_sizes()) {
    test::Cluster cluster(node_size);
    for (const auto* algorithm : collective::all_gather_algorithms()) {
      for (const std::size_t count : kCounts) {
        for (const std::size_t depth : kDepths) {
          SCOPED_TRACE(testing::Message() << algorithm->name << " count " << count << " depth "
                                          << depth << " node size " << node_size);
          const codec::CodecSpec codec =
              algorithm->traits.any_codec ? codec::parse_codec("int8:32") : codec::CodecSpec{};
          const collective::AllGatherPlan plan{collective::Parts::dense(count), Dtype::bf16, codec,
                                               depth, "test"};
          const auto planned =
              collective::plan_all_gather(algorithm->name, cluster.context(), plan);
          (void)test::take_pmpi_counts();
          (void)test::run(*planned, plan, cluster.size(), cluster.rank(), plan.memory);
          const Messages seen = seen_by_mpi(node_size);
          if (!algorithm->traits.modelled) {
            EXPECT_EQ(planned->messages(), seen);
          }
          EXPECT_EQ(planned->messages() == Messages{}, planned->volume() == comm::Bytes{});
        }
      }
    }
  }
}

TEST(Messages, OfEveryReduceScatter) {
  for (const int node_size : test::node_sizes()) {
    test::Cluster cluster(node_size);
    for (const auto* algorithm : collective::reduce_scatter_algorithms()) {
      for (const std::size_t count : kCounts) {
        for (const std::size_t depth : kDepths) {
          SCOPED_TRACE(testing::Message() << algorithm->name << " count " << count << " depth "
                                          << depth << " node size " << node_size);
          const codec::CodecSpec codec =
              algorithm->traits.any_codec ? codec::parse_codec("int4:32") : codec::CodecSpec{};
          const collective::ReduceScatterPlan plan{.parts = collective::Parts::dense(count),
                                                   .memory = Dtype::fp32,
                                                   .plain = Dtype::bf16,
                                                   .codec_first = codec,
                                                   .codec_second = codec,
                                                   .depth = depth,
                                                   .purpose = "test"};
          const auto planned =
              collective::plan_reduce_scatter(algorithm->name, cluster.context(), plan);
          (void)test::take_pmpi_counts();
          (void)test::run(*planned, plan, cluster.size(), cluster.rank());
          const Messages seen = seen_by_mpi(node_size);
          if (!algorithm->traits.modelled) {
            EXPECT_EQ(planned->messages(), seen);
          }
          EXPECT_EQ(planned->messages() == Messages{}, planned->volume() == comm::Bytes{});
        }
      }
    }
  }
}

/// All of `options` is given, so that nothing is left to be resolved.
zero::Options options_of(int stage, bool quantized, std::size_t hpz, const char* all_gather) {
  zero::Options options;
  options.stage = stage;
  options.compute = Dtype::bf16;
  options.quantized_weights = quantized;
  options.quantized_gradients = quantized;
  options.hpz_partition_size = hpz;
  options.all_gather_algorithm = all_gather;
  options.secondary_gather_algorithm = "direct";
  options.reduce_scatter_algorithm = quantized ? "2-hop" : "flat";
  options.accumulation_steps = 2;
  options.pipeline_depth = 3;
  options.reduce_bucket_size = 20'000;
  return options;
}

zero::Options in_groups(zero::Options options, std::size_t ranks) {
  options.shard_group_size = ranks;
  return options;
}

TEST(Messages, OfTheEnginesSteps) {
  for (const int node_size : {1, 2}) {
    if (test::world().size() % node_size != 0) continue;
    const auto local = static_cast<std::size_t>(node_size);
    std::vector<zero::Options> cases{
        options_of(0, false, 1, "flat"),     options_of(1, false, 1, "two-level"),
        options_of(2, true, 1, "direct"),    options_of(3, false, 1, "flat"),
        options_of(3, true, 1, "two-level"), options_of(3, true, local, "two-level")};
    if (test::world().size() == 4) {
      cases.push_back(in_groups(options_of(3, false, 1, "flat"), 2));
      cases.push_back(in_groups(options_of(3, true, 1, "direct"), 2));
    }
    for (const zero::Options& options : cases) {
      SCOPED_TRACE(testing::Message()
                   << "stage " << options.stage << " " << options.all_gather_algorithm << " hpZ "
                   << options.hpz_partition_size << " groups of " << options.shard_group_size
                   << " node size " << node_size);
      test::EngineCase engine_case(options, node_size, [](const model::Context& context) {
        return test::make_tiny("gpt", context);
      });
      (void)engine_case.step(0);  // the first also sends what is there before it
      (void)test::take_pmpi_counts();
      (void)engine_case.step(1);
      const Messages seen = seen_by_mpi(node_size);

      const zero::RankPlan plans(options, engine_case.model().units(), engine_case.model().layers(),
                                 engine_case.groups().shape(), engine_case.groups().shape());
      const zero::Volumes messages = plans.messages();
      Messages planned = zero::volume(plans.step.step.stale, messages);
      planned += zero::volume(plans.step.update, messages);
      EXPECT_EQ(planned, seen);
      EXPECT_EQ(planned == Messages{}, test::world().size() == 1);
    }
  }
}

}  // namespace
}  // namespace zeropp
