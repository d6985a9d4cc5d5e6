// ctest: name=contract2_collective_draws np=1,3,4 cuda=mpi,nccl timeout=60
// Draws of stochastic rounding in collectives: equal in a rerun and at every pipeline depth, others
// for another key, and independent over ranks and hops.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "lib/collective/draws.hpp"
#include "tests/support/collective_cases.hpp"

namespace zeropp::collective {
namespace {

using test::Cluster;

constexpr std::size_t kDrawnCount = 8192;
constexpr std::size_t kBlock = 64;
constexpr double kLimit = 6;  ///< standard errors

codec::CodecSpec coin() { return codec::parse_codec("int4:64+sr"); }

/// Values half a step above a code, in blocks whose scale is 1: every code is a toss of a coin.
test::Poisoned coins(std::size_t count) {
  test::Poisoned values(count, Dtype::fp32);
  for (std::size_t i = 0; i < count; ++i) {
    test::store(values.view, i, i % kBlock == 0 ? 7.0F : 0.5F);
  }
  return values;
}

TEST(Contract2, ReductionsDrawByKeyAlone) {
  for (const int node_size : test::node_sizes()) {
    Cluster cluster(node_size);
    for (const auto* algorithm : reduce_scatter_algorithms()) {
      if (!algorithm->traits.any_codec || !test::worth_running(*algorithm, node_size)) continue;
      std::vector<float> reference;
      for (const std::size_t depth : {1U, 1U, 3U}) {
        const ReduceScatterPlan plan{
            Parts::dense(kDrawnCount), Dtype::fp32, Dtype::fp32, coin(), coin(), depth, "test"};
        const auto planned = plan_reduce_scatter(algorithm->name, cluster.context(), plan);
        const auto sum = test::run(*planned, plan, cluster.size(), cluster.rank(), 1);
        if (reference.empty()) reference = sum;
        EXPECT_EQ(sum, reference) << algorithm->name << " depth " << depth;
        EXPECT_NE(sum, test::run(*planned, plan, cluster.size(), cluster.rank(), 2))
            << algorithm->name;
      }
    }
  }
}

TEST(Contract2, RanksOfAGatherDrawApart) {
  Cluster cluster(test::node_sizes().back());
  for (const auto* algorithm : all_gather_algorithms()) {
    if (!algorithm->traits.any_codec) continue;
    const AllGatherPlan plan{Parts::dense(kDrawnCount), Dtype::fp32, coin(), 3, "test"};
    const auto planned = plan_all_gather(algorithm->name, cluster.context(), plan);
    const test::OnDevice in(coins(kDrawnCount));
    const auto n = static_cast<std::size_t>(cluster.size());
    const test::OnDevice out(n * kDrawnCount, Dtype::fp32);
    const test::DeviceBytes workspace(planned->workspace_bytes());
    planned->start(in.view, out.view, {workspace.span(), test::stream().handle(), 5});
    planned->finish(test::stream().handle());
    const test::Poisoned full = out.download();
    for (std::size_t rank = 1; rank < n; ++rank) {
      double same = 0;
      double tosses = 0;
      for (std::size_t e = 0; e < kDrawnCount; ++e) {
        if (e % kBlock == 0) continue;
        ++tosses;
        same += test::load(full.view, e) == test::load(full.view, rank * kDrawnCount + e) ? 1 : 0;
      }
      EXPECT_LT(std::fabs(same - tosses / 2), kLimit * std::sqrt(tosses / 4))
          << algorithm->name << " rank " << rank;
    }
  }
}

/// A sum of one toss of every rank: the variances add up if draws are independent, and the mean
/// equals the mean of the values.
TEST(Contract2, RanksOfAReductionDrawApart) {
  Cluster cluster(test::node_sizes().back());
  const auto n = static_cast<std::size_t>(cluster.size());
  const ReduceScatterPlan plan{
      Parts::dense(kDrawnCount), Dtype::fp32, Dtype::fp32, coin(), coin(), 2, "test"};
  const auto planned = plan_reduce_scatter("1-hop", cluster.context(), plan);
  const test::OnDevice in(coins(n * kDrawnCount));
  const test::OnDevice out(kDrawnCount, Dtype::fp32);
  const test::DeviceBytes workspace(planned->workspace_bytes());
  planned->start(in.view, out.view, {workspace.span(), test::stream().handle(), 5});
  planned->finish(test::stream().handle());
  const test::Poisoned sum = out.download();
  const double expected = 0.5 * static_cast<double>(n);
  double mean = 0;
  double variance = 0;
  double tosses = 0;
  for (std::size_t e = 0; e < kDrawnCount; ++e) {
    if (e % kBlock == 0) continue;
    const double error = double{test::load(sum.view, e)} - expected;
    ++tosses;
    mean += error;
    variance += error * error;
  }
  mean /= tosses;
  variance /= tosses;
  const double wanted = 0.25 * static_cast<double>(n);
  EXPECT_LT(std::fabs(mean), kLimit * std::sqrt(wanted / tosses));
  EXPECT_LT(std::fabs(variance - wanted), kLimit * wanted * std::sqrt(2 / tosses));
}

TEST(Contract2, HopsAndSourcesHaveKeysOfTheirOwn) {
  std::vector<std::uint64_t> keys;
  for (const std::uint64_t hop : {std::uint64_t{0}, std::uint64_t{1}, kGatherHop}) {
    for (const std::size_t source : {0U, 1U, 2U}) keys.push_back(draw_of(5, hop, source, 0, 0).key);
  }
  std::ranges::sort(keys);
  EXPECT_EQ(std::ranges::adjacent_find(keys), keys.end());
}

}  // namespace
}  // namespace zeropp::collective
