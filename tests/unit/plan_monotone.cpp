// ctest: name=plan_monotone labels=sanitize
// Faster links: no step takes longer, on clusters and with configurations at random.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <random>
#include <string>

#include "lib/plan/break_even.hpp"
#include "lib/plan/collective_costs.hpp"
#include "lib/plan/planned_run.hpp"
#include "lib/plan/planned_topology.hpp"
#include "lib/plan/sold_gpus.hpp"
#include "lib/plan/step_time.hpp"

namespace zeropp::plan {
namespace {

struct Drawn {
  explicit Drawn(unsigned seed) : generator(seed) {
    const SoldGpu& gpu = sold_gpus()[pick(sold_gpus().size())];
    nodes = std::size_t{2} << pick(4);
    ranks = std::size_t{1} << pick(4);
    cluster = sold_cluster({.gpu = std::string(gpu.name),
                            .gpus_per_node = ranks,
                            .node_gbit = 100 * std::pow(32, share()),
                            .node_links = 1});
    if (pick(2) == 0) cluster.rails.gpu_share = 0.3 * share();
    if (pick(2) == 0) cluster.node_links.gpu_share = 0.3 * share();
    if (pick(4) == 0) cluster.node_links.most = cluster.node_links.rate;
    model::Options& model = config.model;
    model.name = "gpt";
    model.num_layers = 2 + pick(5);
    model.num_attention_heads = 8;
    model.hidden_size = 512 << pick(4);
    model.seq_length = 256 << pick(4);
    zero::Options& zero = config.zero;
    zero.stage = static_cast<int>(pick(4));
    zero.compute = Dtype::bf16;
    zero.quantized_weights = zero.stage == 3 && pick(2) == 0;
    zero.quantized_gradients = zero.stage > 0 && pick(2) == 0;
    if (zero.stage == 3 && pick(2) == 0) zero.hpz_partition_size = ranks;
    static constexpr std::array<const char*, 5> kGathers{"direct", "flat", "native",
                                                         "native-images", "two-level"};
    static constexpr std::array<const char*, 5> kReductions{"1-hop", "2-hop", "flat", "native",
                                                            "ordered"};
    zero.all_gather_algorithm = kGathers.at(zero.quantized_weights ? 3 + pick(2) : pick(5));
    zero.secondary_gather_algorithm = kGathers.at(pick(3));
    zero.reduce_scatter_algorithm = kReductions.at(zero.quantized_gradients ? pick(2) : pick(5));
    zero.pipeline_depth = 1 + pick(4);
    config.bf16 = true;
    config.rail_lanes = 1;
    config.copy_engines = pick(2) == 0 ? comm::CopyEngines::on : comm::CopyEngines::off;
    config.train_micro_batch_size_per_gpu = 1 + pick(4);
    config.gradient_accumulation_steps = 1 + pick(2);
    zero.accumulation_steps = config.gradient_accumulation_steps;
    config.train_batch_size =
        nodes * ranks * config.gradient_accumulation_steps * config.train_micro_batch_size_per_gpu;
  }
  std::size_t pick(std::size_t below) { return generator() % below; }
  double share() { return static_cast<double>(generator()) / 4294967296.0; }

  std::mt19937 generator;
  std::size_t nodes = 0;
  std::size_t ranks = 0;
  Cluster cluster;
  config::TrainConfig config;
};

/// The cluster with other rates: `factor` times those between nodes, or inside them.
Cluster scaled(Cluster cluster, bool inside, double factor) {
  if (inside) {
    cluster.node_links.rate *= factor;
    cluster.node_links.most *= factor;
    cluster.node_links.copies_rate *= factor;
  } else {
    cluster.rails.lanes.front().rate *= factor;
  }
  return cluster;
}

PlannedRun planned(const Drawn& drawn) {
  return {drawn.config, planned_topology(drawn.nodes, drawn.ranks), 5000};
}

/// From slow to fast: the largest share by which a value is more than one before it.
template <class Seconds>
double growth(const Cluster& cluster, bool inside, const Seconds& seconds) {
  double least = std::numeric_limits<double>::infinity();
  double grown = 0;
  for (double factor = 1.0 / 16; factor < 64; factor *= 1.1) {
    const double found = seconds(scaled(cluster, inside, factor));
    grown = std::max(grown, found / least - 1);
    least = std::min(least, found);
  }
  return grown;
}

constexpr unsigned kDrawn = 200;
constexpr double kRounding = 1e-9;

TEST(PlanMonotone, CollectivesTakeNoLongerOverFasterLinks) {
  for (unsigned seed = 1; seed <= kDrawn; ++seed) {
    Drawn drawn(seed);
    const std::size_t count = 1 + drawn.pick(std::size_t{1} << 24U);
    const auto of = [](const OpCost& cost) { return cost.start.seconds() + cost.finish.seconds(); };
    for (const bool inside : {false, true}) {
      const zero::Options& zero = drawn.config.zero;
      const auto place = [&](const Cluster& cluster) {
        return ClusterGroup{
            .cluster = cluster, .nodes = drawn.nodes, .ranks_per_node = drawn.ranks};
      };
      const auto gather = [&](const Cluster& cluster) {
        return of(gather_cost(
            {zero.all_gather_algorithm, count, Dtype::bf16, {"int8", 256, {}}, zero.pipeline_depth},
            place(cluster)));
      };
      const auto reduce = [&](const Cluster& cluster) {
        return of(reduce_cost({zero.reduce_scatter_algorithm,
                               count,
                               Dtype::bf16,
                               {"int4", 128, {}},
                               {"int4", 128, {}},
                               zero.pipeline_depth},
                              place(cluster)));
      };
      EXPECT_LE(growth(drawn.cluster, inside, gather), kRounding) << seed;
      EXPECT_LE(growth(drawn.cluster, inside, reduce), kRounding) << seed;
    }
  }
}

// Where nothing overlaps, neither operations nor the pieces of one, nothing is shared either.
TEST(PlanMonotone, StepsWithoutOverlapTakeNoLongerOverFasterLinks) {
  for (unsigned seed = 1; seed <= kDrawn; ++seed) {
    Drawn drawn(seed);
    drawn.cluster.engine.overlap = 0;
    drawn.config.zero.pipeline_depth = 1;
    const PlannedRun run = planned(drawn);
    for (const bool inside : {false, true}) {
      const auto seconds = [&](const Cluster& cluster) { return step_seconds(run, cluster); };
      EXPECT_LE(growth(drawn.cluster, inside, seconds), kRounding) << seed;
    }
  }
}

// Algorithms are fixed here: "auto" chooses by the topology, not by the time. With overlap the
// promise is a bound and no more: parts that run at the same time share links and the GPU evenly,
// and a transfer that ends sooner may let the next one, or its kernels, take from what the step
// waits for. A step that a faster link makes longer does so by a few percent at most, and rarely.
TEST(PlanMonotone, OverlappedStepsHardlyTakeLongerOverFasterLinks) {
  std::size_t longer = 0;
  for (unsigned seed = 1; seed <= kDrawn; ++seed) {
    const Drawn drawn(seed);
    const PlannedRun run = planned(drawn);
    for (const bool inside : {false, true}) {
      const auto seconds = [&](const Cluster& cluster) { return step_seconds(run, cluster); };
      const double grown = growth(drawn.cluster, inside, seconds);
      EXPECT_LE(grown, 0.07) << seed << (inside ? " inside" : " between nodes");
      if (grown > 1e-3) ++longer;
    }
  }
  EXPECT_LE(longer, 2 * kDrawn / 8);
}

// The slower links set the pace of a transfer over both kinds of links. A rate that is a little
// higher makes the others the slower ones, and may not change what the transfer takes from compute.
TEST(PlanMonotone, NothingJumpsWhereOtherLinksSetThePace) {
  constexpr double kLittle = 1e-7;
  for (unsigned seed = 1; seed <= kDrawn; ++seed) {
    const Drawn drawn(seed);
    if (drawn.ranks == 1) continue;
    const PlannedRun run = planned(drawn);
    const auto nodes = static_cast<double>(drawn.nodes);
    const auto ranks = static_cast<double>(drawn.ranks);
    const double inside = drawn.cluster.node_links.rate;
    // A ring carries the same over both; each rank to all others more of it out of the node.
    for (const double even : {inside, inside * (nodes - 1) * ranks * ranks / (ranks - 1)}) {
      const auto seconds = [&](double rate) {
        return step_seconds(run, with_link_rate(drawn.cluster, rate));
      };
      const double slower = seconds(even * (1 - kLittle));
      EXPECT_NEAR(seconds(even * (1 + kLittle)), slower, 1e-5 * slower) << seed;
    }
  }
}

// ZeRO-3 over the vendor's rings, which are what links of 1,600 to 3,200 Gbit/s per node compete
// with: once all NVLink carries paces them, faster rails may not cost compute.
TEST(PlanMonotone, RingsOfEightH100) {
  config::TrainConfig config = Drawn(1).config;
  config.model = {.name = "gpt",
                  .num_layers = 8,
                  .hidden_size = 4096,
                  .num_attention_heads = 32,
                  .seq_length = 2048,
                  .vocab_size = 50257};
  config.zero = {};
  config.zero.stage = 3;
  config.zero.compute = Dtype::bf16;
  config.zero.all_gather_algorithm = "native";
  config.zero.secondary_gather_algorithm = "native";
  config.zero.reduce_scatter_algorithm = "native";
  config.train_micro_batch_size_per_gpu = 1;
  config.gradient_accumulation_steps = 1;
  config.train_batch_size = 128;
  const PlannedRun run(config, planned_topology(16, 8), 50257);
  double before = std::numeric_limits<double>::infinity();
  for (double gbit = 1000; gbit < 4000; gbit += 25) {
    const double seconds = step_seconds(
        run, sold_cluster({.gpu = "h100", .gpus_per_node = 8, .node_gbit = gbit, .node_links = 1}));
    EXPECT_LE(seconds, before * (1 + kRounding)) << gbit << " Gbit/s";
    before = seconds;
  }
}

}  // namespace
}  // namespace zeropp::plan
