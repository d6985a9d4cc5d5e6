// ctest: name=contract2_collective_bits np=1,3,4,6 cuda=mpi,nccl timeout=60 labels=sanitize
// Deterministic collectives give the same bits in every run and at every pipeline depth, and an
// all-gather the same bits on every rank.
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "tests/support/collective_cases.hpp"

namespace zeropp::collective {
namespace {

using test::Cluster;

constexpr std::size_t kChunkedCount = 5003;  // several chunks with every default block

TEST(Contract2, ReduceScatterRepeatsItsBits) {
  for (const int node_size : test::node_sizes()) {
    Cluster cluster(node_size);
    for (const auto* algorithm : reduce_scatter_algorithms()) {
      if (!algorithm->traits.deterministic || !test::worth_running(*algorithm, node_size)) continue;
      for (const auto& [first, second] : test::codec_pairs(*algorithm)) {
        std::vector<float> reference;
        for (const std::size_t wanted : {1U, 1U, 3U, 100U}) {
          const std::size_t depth = test::depth_for(wanted, first, second);
          const ReduceScatterPlan plan{
              Parts::dense(kChunkedCount), Dtype::bf16, Dtype::bf16, first, second, depth, "test"};
          const auto planned = plan_reduce_scatter(algorithm->name, cluster.context(), plan);
          const auto sum = test::run(*planned, plan, cluster.size(), cluster.rank());
          if (reference.empty()) reference = sum;
          ASSERT_EQ(std::memcmp(sum.data(), reference.data(), kChunkedCount * sizeof(float)), 0)
              << algorithm->name << " " << codec::to_string(first) << " depth " << depth;
        }
      }
    }
  }
}

TEST(Contract2, AllGatherGivesEveryRankTheSameBits) {
  for (const int node_size : test::node_sizes()) {
    Cluster cluster(node_size);
    for (const auto* algorithm : all_gather_algorithms()) {
      if (!test::worth_running(*algorithm, node_size)) continue;
      for (const auto& codec : test::codecs_for(*algorithm)) {
        std::vector<std::byte> reference;
        for (const std::size_t wanted : {1U, 1U, 3U}) {
          const std::size_t depth = test::depth_for(wanted, codec);
          const AllGatherPlan plan{Parts::dense(kChunkedCount), Dtype::bf16, codec, depth, "test"};
          const auto planned = plan_all_gather(algorithm->name, cluster.context(), plan);
          const auto full = test::run(*planned, plan, cluster.size(), cluster.rank(), Dtype::bf16);
          if (reference.empty()) reference = full.bytes;
          ASSERT_EQ(full.bytes, reference) << algorithm->name << " " << codec::to_string(codec);
        }
        const auto everybody = test::world().control().gather(
            {reinterpret_cast<const char*>(reference.data()), reference.size()});
        for (const auto& rank : everybody) {
          ASSERT_TRUE(rank == everybody.front())
              << algorithm->name << " " << codec::to_string(codec);
        }
      }
    }
  }
}

}  // namespace
}  // namespace zeropp::collective
