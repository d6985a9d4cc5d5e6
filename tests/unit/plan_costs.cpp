// ctest: name=plan_costs labels=sanitize
// Costs of layers, collectives and whole steps against closed forms on a cluster of round numbers.
#include <gtest/gtest.h>

#include "kernels/codec/codec.hpp"
#include "lib/base/error.hpp"
#include "lib/plan/collective_costs.hpp"
#include "lib/plan/layer_costs.hpp"
#include "lib/plan/op_costs.hpp"
#include "lib/plan/planned_run.hpp"
#include "lib/plan/planned_topology.hpp"
#include "lib/plan/step_time.hpp"
#include "lib/plan/update_costs.hpp"

namespace zeropp::plan {
namespace {

/// Products at 100 TFLOP/s, attention at 10, memory at 1 TB/s, NVLink at 100 GB/s, a link of 10
/// GB/s for every GPU; no latency.
Cluster round_numbers(std::size_t links_per_node) {
  Cluster cluster;
  cluster.gpu.peak = 1e15;
  cluster.gpu.memory_rate = 1e12;
  cluster.gpu.products = {{1024, 1024, 1024, 1e14, 1e14}};
  cluster.gpu.attention = {{1024, 64, 1e13, 1e13}};
  cluster.node_links = {.latency = 0, .hop_latency = 0, .rate = 1e11, .most = 1e11, .gpu_share = 0};
  cluster.rails.links_per_node = static_cast<double>(links_per_node);
  cluster.rails.lanes = {{1, 0, 1e10, {}}};
  return cluster;
}

double seconds_on(const Stages& stages, Resource resource) {
  double sum = 0;
  for (const Stage& stage : stages) sum += stage.resource == resource ? stage.seconds : 0;
  return sum;
}
double seconds_on(const OpCost& cost, Resource resource) {
  return seconds_on(cost.start, resource) + seconds_on(cost.finish, resource);
}

constexpr std::size_t kCount = std::size_t{1} << 20;
constexpr double kShard = 2.0 * kCount;  ///< bytes in bf16

TEST(PlanCosts, GathersSendWhatTheirAlgorithmSays) {
  const Cluster cluster = round_numbers(4);
  const ClusterGroup place{.cluster = cluster, .nodes = 3, .ranks_per_node = 4, .rail_lanes = 1};
  const auto cost = [&](const char* algorithm) {
    return gather_cost({algorithm, kCount, Dtype::bf16, {}}, place);
  };
  // Two-level: a shard to each other node on the own rail, then all nodes' to each GPU of the node.
  EXPECT_NEAR(seconds_on(cost("two-level").start, Resource::rails), 2 * kShard / 1e10, 1e-12);
  EXPECT_NEAR(seconds_on(cost("two-level").finish, Resource::node_links), 9 * kShard / 1e11, 1e-12);
  // Encoded once, decoded everywhere: each read and written.
  EXPECT_NEAR(seconds_on(cost("two-level"), Resource::gpu), (2 + 2 * 12) * kShard / 1e12, 1e-12);
  // A ring: 11 shards leave the node, over its four links.
  EXPECT_NEAR(seconds_on(cost("native"), Resource::rails), 11 * kShard / 4e10, 1e-12);
  EXPECT_EQ(seconds_on(cost("native"), Resource::gpu), 0);
  EXPECT_NEAR(seconds_on(cost("flat"), Resource::rails), 11 * kShard / 4e10, 1e-12);
  EXPECT_NEAR(seconds_on(cost("native-images"), Resource::rails), 11 * kShard / 4e10, 1e-12);
  EXPECT_NEAR(seconds_on(cost("native-images"), Resource::gpu), (2 + 2 * 12) * kShard / 1e12,
              1e-12);
  // Each rank to all others: 8 of its images leave the node.
  EXPECT_NEAR(seconds_on(cost("direct"), Resource::rails), 8 * kShard / 1e10, 1e-12);
  EXPECT_THROW(cost("unheard"), std::invalid_argument);
  const ClusterGroup alone{.cluster = cluster, .nodes = 1, .ranks_per_node = 1, .rail_lanes = 1};
  EXPECT_EQ(
      seconds_on(gather_cost({"native", kCount, Dtype::bf16, {}}, alone), Resource::node_links), 0);
}

TEST(PlanCosts, LinksCarryWhatWasMeasuredOfTheMessageAndTheRoute) {
  Cluster cluster = round_numbers(4);
  cluster.rails.lanes.front().sizes = {{2 * kShard, 5e9}};
  cluster.rails.ring_rate = 1.6e10;
  const ClusterGroup place{.cluster = cluster, .nodes = 3, .ranks_per_node = 4, .rail_lanes = 1};
  const auto on_rails = [&](const char* algorithm) {
    return seconds_on(gather_cost({algorithm, kCount, Dtype::bf16, {}}, place), Resource::rails);
  };
  EXPECT_NEAR(on_rails("two-level"), 2 * kShard / 5e9, 1e-12);
  EXPECT_NEAR(on_rails("direct"), 8 * kShard / 1e10, 1e-12);  // a larger message
  EXPECT_NEAR(on_rails("native"), 11 * kShard / 1.6e10, 1e-12);
  EXPECT_NEAR(on_rails("native-images"), 11 * kShard / 1.6e10, 1e-12);
  EXPECT_NEAR(on_rails("flat"), 11 * kShard / 4e10, 1e-12) << "messages, not the vendor's channels";
}

TEST(PlanCosts, LanesServeRailsAndTheWorldWhereNodesHaveOneRank) {
  Cluster cluster = round_numbers(1);
  cluster.rails.lanes.push_back({8, 0, 4e10, {}});
  cluster.rails.ring_rate = 1.6e10;
  const auto on_rails = [&](const char* algorithm, std::size_t ranks_per_node) {
    const ClusterGroup place{
        .cluster = cluster, .nodes = 3, .ranks_per_node = ranks_per_node, .rail_lanes = 8};
    return seconds_on(gather_cost({algorithm, kCount, Dtype::bf16, {}}, place), Resource::rails);
  };
  EXPECT_NEAR(on_rails("direct", 1), 2 * kShard / 4e10, 1e-12);
  EXPECT_NEAR(on_rails("flat", 1), 2 * kShard / 4e10, 1e-12);
  EXPECT_NEAR(on_rails("native", 1), 2 * kShard / 1.6e10, 1e-12);
  EXPECT_NEAR(on_rails("two-level", 4), 4 * 2 * kShard / 4e10, 1e-12);
  cluster.rails.ring_rate = 0;
  EXPECT_NEAR(on_rails("native", 1), 2 * kShard / 1e10, 1e-12) << "one communicator";
  EXPECT_NEAR(on_rails("direct", 4), 4 * 8 * kShard / 1e10, 1e-12) << "not on rails";
}

TEST(PlanCosts, DeeperPipelinesHideWhatIsShorter) {
  const Cluster cluster = round_numbers(4);
  const ClusterGroup place{.cluster = cluster, .nodes = 3, .ranks_per_node = 4, .rail_lanes = 1};
  const codec::CodecSpec int8{"int8", 256, {}};
  const auto gather = [&](const char* algorithm, std::size_t depth) {
    return gather_cost({algorithm, kCount, Dtype::bf16, int8, depth}, place);
  };
  const OpCost whole = gather("two-level", 1);
  const OpCost cut = gather("two-level", 4);
  EXPECT_EQ(whole.pieces, 1U);
  EXPECT_EQ(cut.pieces, 4U);
  // Rails carry the same in all; a quarter of the encoding shows.
  EXPECT_NEAR(4 * seconds_on(cut.start, Resource::rails), seconds_on(whole.start, Resource::rails),
              1e-12);
  EXPECT_NEAR(4 * seconds_on(cut.start, Resource::gpu), seconds_on(whole.start, Resource::gpu) / 4,
              1e-12);
  // The vendor's own is not cut, and no part has more pieces than chunks of 16 blocks.
  EXPECT_EQ(gather("native", 4).pieces, 1U);
  EXPECT_EQ(gather_cost({"direct", 16 * 256 + 1, Dtype::bf16, int8, 4}, place).pieces, 2U);
  const OpCost sum = reduce_cost({"2-hop", kCount, Dtype::bf16, int8, int8, 4}, place);
  EXPECT_EQ(sum.pieces, 4U);
  EXPECT_NEAR(4 * seconds_on(sum, Resource::rails),
              seconds_on(reduce_cost({"2-hop", kCount, Dtype::bf16, int8, int8, 1}, place),
                         Resource::rails),
              1e-12);
}

TEST(PlanCosts, CodecsShortenTransfers) {
  const Cluster cluster = round_numbers(4);
  const ClusterGroup place{.cluster = cluster, .nodes = 3, .ranks_per_node = 4, .rail_lanes = 1};
  const codec::CodecSpec int8{"int8", 256, {}};
  const double image = static_cast<double>(codec::Codec(int8, Dtype::bf16).wire_bytes(kCount));
  const OpCost cost = gather_cost({"two-level", kCount, Dtype::bf16, int8}, place);
  EXPECT_NEAR(seconds_on(cost, Resource::rails), 2 * image / 1e10, 1e-12);
  EXPECT_NEAR(seconds_on(cost.finish, Resource::gpu), 12 * (image + kShard) / 1e12, 1e-12);
  EXPECT_NEAR(seconds_on(cost.start, Resource::gpu), (kShard + image) / 1e12, 1e-12);
  // An image that is kept is read and written.
  const auto from = [&](OwnImage own) {
    return gather_cost({"two-level", kCount, Dtype::bf16, int8, 1, own}, place);
  };
  const OpCost kept = from(OwnImage::copied);
  EXPECT_NEAR(seconds_on(kept.start, Resource::gpu), 2 * image / 1e12, 1e-12);
  EXPECT_NEAR(seconds_on(kept.finish, Resource::gpu), seconds_on(cost.finish, Resource::gpu), 0);
  // One that an update wrote where it is sent from takes no kernel.
  const OpCost written = from(OwnImage::in_place);
  EXPECT_EQ(seconds_on(written.start, Resource::gpu), 0);
  EXPECT_NEAR(seconds_on(written, Resource::rails), seconds_on(cost, Resource::rails), 0);
}

TEST(PlanCosts, ReductionsSendWhatTheirAlgorithmSays) {
  const Cluster cluster = round_numbers(4);
  const ClusterGroup place{.cluster = cluster, .nodes = 3, .ranks_per_node = 4, .rail_lanes = 1};
  const codec::CodecSpec int4{"int4", 128, {}};
  const codec::Codec codec(int4, Dtype::bf16);
  const auto slice = static_cast<double>(codec.wire_bytes(kCount));
  const auto slices = static_cast<double>(codec.wire_bytes(3 * kCount));
  const OpCost two_hop = reduce_cost({"2-hop", kCount, Dtype::bf16, int4, int4}, place);
  EXPECT_NEAR(seconds_on(two_hop.start, Resource::node_links), 3 * slices / 1e11, 1e-12);
  EXPECT_NEAR(seconds_on(two_hop.finish, Resource::rails), 2 * slice / 1e10, 1e-12);
  EXPECT_NEAR(seconds_on(two_hop.finish, Resource::gpu),
              (4 * slices + 6 * slice + 4 * kCount) / 1e12, 1e-12);
  // No kernel sums plain images and writes plain ones: the sum of 3 slices is written and read.
  const OpCost plain = reduce_cost({"2-hop", kCount, Dtype::bf16, {}, {}}, place);
  EXPECT_NEAR(seconds_on(plain.finish, Resource::gpu),
              (4 * 3 * kShard + 2 * 3 * 4 * kCount + 6 * kShard + 4 * kCount) / 1e12, 1e-12);
  const OpCost native = reduce_cost({"native", kCount, Dtype::bf16, {}, {}}, place);
  EXPECT_NEAR(seconds_on(native, Resource::rails), 11 * kShard / 4e10, 1e-12);
  EXPECT_NEAR(seconds_on(native.start, Resource::gpu), 12 * (4 * kCount + kShard) / 1e12, 1e-12);
  // Gradients of the dtype that travels: the vendor takes them as they lie, encoders read half.
  const OpCost lying = reduce_cost({"native", kCount, Dtype::bf16, {}, {}, 1, Dtype::bf16}, place);
  EXPECT_EQ(seconds_on(lying.start, Resource::gpu), 0);
  EXPECT_EQ(seconds_on(lying.finish, Resource::gpu), seconds_on(native.finish, Resource::gpu));
  const OpCost narrow =
      reduce_cost({"2-hop", kCount, Dtype::bf16, int4, int4, 1, Dtype::bf16}, place);
  EXPECT_NEAR(seconds_on(two_hop.start, Resource::gpu) - seconds_on(narrow.start, Resource::gpu),
              12 * 2 * kCount / 1e12, 1e-12);
  const OpCost ordered = reduce_cost({"ordered", kCount, Dtype::bf16, {}, {}}, place);
  EXPECT_NEAR(seconds_on(ordered, Resource::rails), 8 * kShard / 1e10, 1e-12);
  const OpCost one_hop = reduce_cost({"1-hop", kCount, Dtype::bf16, int4, int4}, place);
  EXPECT_NEAR(seconds_on(one_hop, Resource::rails), 8 * slice / 1e10, 1e-12);
  EXPECT_THROW(reduce_cost({"unheard", kCount, Dtype::bf16, {}, {}}, place), std::invalid_argument);
  // In one piece and in the dtype that travels, nothing is encoded.
  const OpCost as_it_lies =
      reduce_cost({"1-hop", kCount, Dtype::bf16, {}, {}, 1, Dtype::bf16}, place);
  EXPECT_EQ(seconds_on(as_it_lies.start, Resource::gpu), 0);
  // Parts that lie apart, pieces of longer ones, are brought together first.
  for (const char* algorithm : {"1-hop", "native"}) {
    const OpCost apart =
        reduce_cost({algorithm, kCount, Dtype::bf16, {}, {}, 1, Dtype::bf16, false}, place);
    EXPECT_NEAR(seconds_on(apart.start, Resource::gpu), 2 * 12 * kShard / 1e12, 1e-12);
  }
  // On one node its first hop is all that there is.
  const ClusterGroup node{.cluster = cluster, .nodes = 1, .ranks_per_node = 4, .rail_lanes = 1};
  const OpCost inside = reduce_cost({"2-hop", kCount, Dtype::bf16, int4, int4}, node);
  EXPECT_NEAR(seconds_on(inside, Resource::node_links), 3 * slice / 1e11, 1e-12);
  EXPECT_EQ(seconds_on(inside, Resource::rails), 0);
}

TEST(PlanCosts, CopyEnginesTakeLargePieces) {
  Cluster cluster = round_numbers(4);
  cluster.node_links.copies_rate = 2e11;
  ClusterGroup node{
      .cluster = cluster, .nodes = 1, .ranks_per_node = 4, .rail_lanes = 1, .copy_engines = true};
  constexpr std::size_t kFewest = 2U << 20U;  // 4 MiB in bf16
  const double part = 2.0 * kFewest;
  const OpCost copied = gather_cost({"direct", kFewest, Dtype::bf16, {}}, node);
  EXPECT_NEAR(seconds_on(copied, Resource::copies), 3 * part / 2e11, 1e-12);
  EXPECT_EQ(seconds_on(copied, Resource::node_links), 0);
  EXPECT_EQ(seconds_on(copied.finish, Resource::gpu), 0) << "it arrives in place";
  // An exchange also moves the own part to its place, with a read and a write after the other
  // parts.
  cluster.node_links.latency = 0;
  const OpCost exchanged =
      reduce_cost({"1-hop", kFewest, Dtype::bf16, {}, {}, 1, Dtype::bf16}, node);
  EXPECT_NEAR(seconds_on(exchanged.start, Resource::copies), 3 * part / 2e11, 1e-12);
  EXPECT_NEAR(seconds_on(exchanged.start, Resource::none), 2 * part / 1e12, 1e-12);
  const OpCost shorter = gather_cost({"direct", kFewest - 8, Dtype::bf16, {}}, node);
  EXPECT_EQ(seconds_on(shorter, Resource::copies), 0);
  EXPECT_GT(seconds_on(shorter, Resource::node_links), 0);
  cluster.node_links.copies_rate = 0;  // not known
  EXPECT_NEAR(
      seconds_on(gather_cost({"direct", kFewest, Dtype::bf16, {}}, node), Resource::node_links),
      3 * part / 1e11, 1e-12);
  EXPECT_EQ(seconds_on(gather_cost({"native", kFewest, Dtype::bf16, {}}, node), Resource::copies),
            0);
}

model::Options costed_gpt() {
  return {.name = "gpt",
          .num_layers = 4,
          .hidden_size = 1024,
          .num_attention_heads = 16,
          .seq_length = 512,
          .vocab_size = 5000};
}

TEST(PlanCosts, LayersTakeTheirOperationsAndBytes) {
  const Gpu gpu = round_numbers(4).gpu;
  const auto costs = layer_costs(costed_gpt(), 2, Dtype::bf16, gpu);
  ASSERT_EQ(costs.size(), 6U);
  const double rows = 2 * 512;
  const double width = 1024;
  const double products = 24 * rows * width * width / 1e14;
  const double attention = 2 * rows * 512 * width / 1e13;
  EXPECT_NEAR(costs[1].forward, products + attention + 8 * rows * width / 1e12, 1e-12);
  EXPECT_NEAR(costs[1].backward, 2 * products + 2.5 * attention + 16 * rows * width / 1e12, 1e-12);
  EXPECT_NEAR(costs[5].forward,
              2 * rows * width * 5000 / 1e14 + 4 * rows * width / 1e12 + 4 * rows * 5000 / 1e12,
              1e-12);
  model::Options again = costed_gpt();
  again.recompute_activations = true;
  const auto recomputed = layer_costs(again, 2, Dtype::bf16, gpu);
  // All that backward reads again but the last product's output, and not in the last block.
  EXPECT_NEAR(recomputed[1].backward - costs[1].backward,
              costs[1].forward - 8 * rows * width * width / 1e14, 1e-12);
  EXPECT_EQ(recomputed[4].backward, costs[4].backward);
  model::Options other;
  other.name = "quadratic";
  EXPECT_THROW(layer_costs(other, 1, Dtype::bf16, gpu), Error);
}

TEST(PlanCosts, LayersOfOtherPartsTakeTheirs) {
  const Gpu gpu = round_numbers(4).gpu;
  const double rows = 2 * 1024;
  const double hidden = 512;
  const double queries = 4 * 64;
  const double keys = 2 * 64;
  const double wide = 1024;
  const auto moved = [&](double columns) { return 2 * rows * columns / 1e12; };
  const auto product = [&](double in, double out) { return 2 * rows * in * out / 1e14; };
  model::Options llama = costed_gpt();
  llama.name = "llama";
  llama.hidden_size = 512;
  llama.num_attention_heads = 4;
  llama.num_key_value_heads = 2;
  llama.head_dim = 64;
  llama.seq_length = 1024;
  llama.ffn_hidden_size = 1024;
  const auto dense = layer_costs(llama, 2, Dtype::bf16, gpu);
  // Norms, rotary positions, attention's lower half, and the gate are not matrices.
  const double attention = 2 * rows * 1024 * queries / 1e13;
  const double rest = moved(2 * 2 * hidden + 2 * (queries + keys)) + attention +
                      product(hidden, queries + 2 * keys) + product(queries, hidden);
  const double mlp = product(hidden, 2 * wide) + moved(3 * wide) + product(wide, hidden);
  EXPECT_NEAR(dense[1].forward, rest + mlp, 1e-12);
  EXPECT_NEAR(dense[0].forward, moved(2 * hidden), 1e-15);  // one table

  // Two of 64 experts, in the second block alone: rows of two, and the matrices of all are read.
  model::Options mixed = llama;
  mixed.parts = model::parts_of(llama);
  mixed.parts->experts = {.count = 64, .per_token = 2, .width = 1024, .first = 1};
  const auto costs = layer_costs(mixed, 2, Dtype::bf16, gpu);
  EXPECT_EQ(costs[1].forward, dense[1].forward);
  const auto experts = [&](double in, double out) {
    return std::max(2 * product(in, out), 64 * 2 * in * out / 1e12);
  };
  EXPECT_GT(experts(hidden, wide), 2 * product(hidden, wide)) << "reading binds here";
  EXPECT_NEAR(costs[2].forward,
              rest + product(hidden, 64) + moved(3 * hidden) + experts(hidden, 2 * wide) +
                  moved(2 * 3 * wide) + experts(wide, hidden) + moved(3 * hidden),
              1e-12);
}

TEST(PlanCosts, InputsAreCopiedBesideTheirBlocks) {
  const Gpu gpu = round_numbers(4).gpu;
  model::Options model = costed_gpt();
  model.num_layers = 7;
  model.recompute_activations = true;
  model.cpu_checkpointing = true;
  const double bytes = 2.0 * 512 * 1024 * 2;
  for (const std::size_t interval : {1U, 2U}) {
    model.recompute_interval = interval;
    const auto alone = layer_costs(model, 2, Dtype::bf16, gpu);
    const auto with = [&](double link_rate) {
      auto costs = alone;
      add_input_copies(costs, model, 2, Dtype::bf16, link_rate);
      return costs;
    };
    const auto hidden = with(1e12);
    const auto waits = with(1e8);
    const std::size_t away = interval == 1 ? 5 : 2;  // of 7 and 4
    double forward = 0;
    double backward = 0;
    for (std::size_t layer = 0; layer < alone.size(); ++layer) {
      EXPECT_EQ(hidden[layer].forward, alone[layer].forward);
      EXPECT_EQ(hidden[layer].backward, alone[layer].backward);
      const bool beside = layer >= 1 && layer < 1 + away * interval;
      forward += beside ? waits[layer].forward : 0;
      backward += beside ? waits[layer].backward : 0;
      EXPECT_TRUE(beside || waits[layer].forward == alone[layer].forward);
    }
    EXPECT_NEAR(forward, static_cast<double>(away) * bytes / 1e8, 1e-9);
    EXPECT_NEAR(backward, static_cast<double>(away) * bytes / 1e8, 1e-9);
  }
}

TEST(PlanCosts, ShapesTakeTheNearestRate) {
  Gpu gpu;
  gpu.products = {{1024, 1024, 4096, 1, 2}, {8192, 1600, 6400, 3, 4}};
  EXPECT_EQ(nearest_product(gpu, 4096, 2048, 8192).forward, 3);
  EXPECT_EQ(nearest_product(gpu, 512, 1024, 1024).forward, 1);
  gpu.attention = {{512, 64, 1, 1}, {4096, 128, 2, 2}};
  EXPECT_EQ(nearest_attention(gpu, 2048, 128).forward, 2);
}

config::TrainConfig resolved(int stage) {
  config::TrainConfig config;
  config.model = costed_gpt();
  config.zero.stage = stage;
  config.zero.compute = Dtype::bf16;
  config.zero.all_gather_algorithm = "two-level";
  config.zero.secondary_gather_algorithm = "native";
  config.zero.reduce_scatter_algorithm = "2-hop";
  config.bf16 = true;
  config.rail_lanes = 1;
  config.train_micro_batch_size_per_gpu = 2;
  config.gradient_accumulation_steps = 1;
  config.train_batch_size = 16;
  return config;
}

StepTime timed(const config::TrainConfig& config, const Cluster& cluster) {
  const PlannedRun run(config, planned_topology(2, 4), 5000);
  return step_time(run, cluster);
}

TEST(PlanCosts, WhatIsLeftOfAProduct) {
  // d seconds of the smallest product: 1, 3, 4 and 4 of them, once forward and twice backward.
  const double d = 2.0 * (2 * 512) * 1024 * 1024 / 1e14;
  EXPECT_NEAR(product_rest(costed_gpt(), 2, Dtype::bf16, round_numbers(4).gpu),
              d * (1 + 9 + 16 + 16) / (2 * (1 + 3 + 4 + 4)), 1e-15);
}

TEST(PlanCosts, StepsOfEveryStage) {
  const Cluster cluster = round_numbers(4);
  for (const int stage : {0, 1, 2, 3}) {
    const StepTime step = timed(resolved(stage), cluster);
    // No step is shorter than its layers, and phases cover it.
    double layers = 0;
    for (const LayerCost& layer : layer_costs(costed_gpt(), 2, Dtype::bf16, cluster.gpu)) {
      layers += layer.forward + layer.backward;
    }
    EXPECT_GE(step.seconds, layers) << "stage " << stage;
    EXPECT_NEAR(step.optimizer + step.forward + step.backward, step.seconds, 1e-9);
    EXPECT_NEAR(step.compute + step.exposed, step.seconds, 1e-9);
  }
}

TEST(PlanCosts, HpzGroupsAcrossNodesHaveNoLanes) {
  Cluster cluster = round_numbers(1);
  cluster.rails.lanes = {{1, 0, 1e8, {}}, {8, 0, 1e12, {}}};
  config::TrainConfig config = resolved(3);
  config.rail_lanes = 8;
  config.zero.all_gather_algorithm = "direct";
  config.zero.secondary_gather_algorithm = "direct";
  const auto seconds = [&](std::size_t hpz) {
    config.zero.hpz_partition_size = hpz;
    return step_time(PlannedRun(config, planned_topology(4, 1), 5000), cluster).backward;
  };
  const model::Options model = costed_gpt();
  const double sent = 12.0 * static_cast<double>(model.num_layers * model.hidden_size) *
                      static_cast<double>(model.hidden_size);  // half of the blocks, in bf16
  EXPECT_GT(seconds(2), sent / 1e8);
  EXPECT_LT(seconds(1), sent / 1e8);
}

/// A copy that differences are added to is gathered inside a node in a piece for each node.
TEST(PlanCosts, CopiesAreGatheredInAPieceForEachNode) {
  Cluster cluster = round_numbers(4);
  cluster.node_links.latency = 1e-3;
  config::TrainConfig config = resolved(3);
  config.zero.hpz_partition_size = 4;
  config.zero.quantized_weights = true;
  const comm::Topology topology = planned_topology(3, 4);
  const auto gathers = [&] {
    const PlannedRun run(config, topology, 5000);
    const zero::RankPlan& plan = run.plans();
    const zero::Schedule& schedule = plan.step.step.stale;
    const zero::ScheduleInput& input = plan.step.input;
    const std::vector<OpCost> costs =
        op_costs(schedule, {config, topology, input, plan.codecs, plan.choice, 5000}, cluster);
    std::vector<OpCost> found;
    for (std::size_t i = 0; i < costs.size(); ++i) {
      if (schedule.ops[i].kind == zero::OpKind::gather_secondary) found.push_back(costs[i]);
    }
    return found;
  };
  const std::vector<OpCost> whole = gathers();
  config.zero.weight_differences.enabled = true;
  const std::vector<OpCost> cut = gathers();
  ASSERT_FALSE(whole.empty());
  ASSERT_GE(cut.size(), whole.size());  // in forward as well
  for (const OpCost& cost : whole) EXPECT_EQ(cost.pieces, 1U);
  for (const OpCost& cost : cut) {
    EXPECT_EQ(cost.pieces, 3U);
    EXPECT_NEAR(seconds_on(cost, Resource::none), 1e-3, 1e-12);  // of each piece
  }
  const auto bytes = [](const std::vector<OpCost>& costs) {
    const OpCost& last = costs.back();
    return static_cast<double>(last.pieces) * seconds_on(last, Resource::node_links);
  };
  EXPECT_NEAR(bytes(cut), bytes(whole), 1e-9 * bytes(whole));
}

/// Below stage 3 a refresh by differences makes them, and adds them to the whole weights.
TEST(PlanCosts, RefreshesByDifferencesTakeWhatTheyReadAndWriteLonger) {
  const Cluster cluster = round_numbers(4);
  config::TrainConfig config = resolved(2);
  config.zero.quantized_weights = true;
  config.zero.weight_differences = {.enabled = true, .codec = config.zero.weight_codec};
  const comm::Topology topology = planned_topology(2, 4);
  const auto refreshes = [&](std::size_t interval) {
    config.zero.weight_differences.refresh_interval = interval;
    const PlannedRun run(config, topology, 5000);
    const zero::RankPlan& plan = run.plans();
    const zero::ScheduleInput& input = plan.step.input;
    const std::vector<zero::Op>& ops = plan.step.update.ops;
    const std::vector<OpCost> costs = op_costs(
        plan.step.update, {config, topology, input, plan.codecs, plan.choice, 5000}, cluster);
    std::vector<OpCost> of_refreshes;
    for (std::size_t i = 0; i < ops.size(); ++i) {
      if (ops[i].kind == zero::OpKind::refresh) of_refreshes.push_back(costs[i]);
    }
    return std::pair(of_refreshes, plan.units);
  };
  const auto [whole, units] = refreshes(1);
  const auto [differences, same_units] = refreshes(0);
  ASSERT_EQ(whole.size(), units.size());
  ASSERT_FALSE(units.empty());
  for (std::size_t u = 0; u < units.size(); ++u) {
    const double moved = static_cast<double>(units[u].shard) * (4 + 2 + 2) +
                         static_cast<double>(units[u].padded) * 2;
    EXPECT_NEAR(seconds_on(differences[u], Resource::gpu) - seconds_on(whole[u], Resource::gpu),
                moved / 1e12 / static_cast<double>(whole[u].pieces), 1e-12);
    EXPECT_EQ(seconds_on(differences[u], Resource::rails), seconds_on(whole[u], Resource::rails));
  }
}

/// The first update begins with the norm of all gradients. Updates in backward begin with the norm
/// of their own gradients.
TEST(PlanCosts, UpdatesWaitForTheNorm) {
  const Cluster cluster = round_numbers(4);
  config::TrainConfig config = resolved(3);
  const comm::Topology topology = planned_topology(2, 4);
  const auto updates = [&] {
    const PlannedRun run(config, topology, 5000);
    const zero::RankPlan& plan = run.plans();
    const zero::ScheduleInput& input = plan.step.input;
    const Workload work{config, topology, input, plan.codecs, plan.choice, 5000};
    std::vector<double> seconds;
    for (std::size_t u = 0; u < plan.units.size(); ++u) {
      seconds.push_back(seconds_on(UpdateCosts(work, cluster).of(u), Resource::gpu) *
                        cluster.gpu.step_share * 1e12 / static_cast<double>(plan.units[u].shard));
    }
    double all = 0;
    for (const zero::UnitPartition& unit : plan.units) all += static_cast<double>(unit.shard);
    return std::pair(seconds, all / static_cast<double>(plan.units[0].shard));
  };
  const auto [at_once, units] = updates();
  const double rule = 4 + 2 * (4 + 8) + 2;  // bytes: gradients, master, two moments, weights
  EXPECT_NEAR(at_once[0], 4 * units + rule, 1e-6);
  for (std::size_t u = 1; u < at_once.size(); ++u) EXPECT_NEAR(at_once[u], rule, 1e-6);
  config.zero.update_in_backward = true;
  for (const double each : updates().first) EXPECT_NEAR(each, 4 + rule, 1e-6);
  // Moments in 8 bits have a scale for 64 of them, and their kernel is slower than a copy.
  config.optimizer.moments = optim::Moments::int8;
  const double in_8_bits = (4 + 2 * (4 + 2 * (1 + 4.0 / 64)) + 2) * 94.9 / 77.5;
  for (const double each : updates().first) EXPECT_NEAR(each, 4 + in_8_bits, 1e-3);
}

TEST(PlanCosts, SlowLinksMakeEveryFeaturePay) {
  Cluster cluster = round_numbers(4);
  cluster.rails.lanes.front().rate = 1e8;
  const config::TrainConfig plain = resolved(3);
  config::TrainConfig qwz = plain;
  qwz.zero.quantized_weights = true;
  config::TrainConfig hpz = plain;
  hpz.zero.hpz_partition_size = 4;
  config::TrainConfig qgz = plain;
  qgz.zero.quantized_gradients = true;
  const StepTime before = timed(plain, cluster);
  EXPECT_STREQ(before.bound, "communication across nodes");
  for (const config::TrainConfig& with : {qwz, hpz, qgz}) {
    EXPECT_LT(timed(with, cluster).seconds, 0.9 * before.seconds);
  }
  // Links that cost nothing bind nothing.
  cluster.rails.lanes.front().rate = 1e16;
  cluster.node_links.rate = cluster.node_links.most = 1e16;
  EXPECT_STREQ(timed(plain, cluster).bound, "compute");
}

/// The shape that is costed has all that the plan says, and parts with gaps between them are not
/// dense.
TEST(PlanCosts, ShapesAreThoseOfTheirPlans) {
  const codec::CodecSpec int8{"int8", 64, {}};
  const codec::CodecSpec int4{"int4", 128, {}};
  const collective::AllGatherPlan gather{.parts = collective::Parts::dense(kCount),
                                         .memory = Dtype::bf16,
                                         .codec = int8,
                                         .depth = 3,
                                         .purpose = "weights"};
  EXPECT_EQ(shape_of("flat", gather), (GatherShape{"flat", kCount, Dtype::bf16, int8, 3}));
  collective::ReduceScatterPlan reduce{.parts = collective::Parts::dense(kCount),
                                       .memory = Dtype::fp32,
                                       .plain = Dtype::bf16,
                                       .codec_first = int4,
                                       .codec_second = int8,
                                       .depth = 2,
                                       .purpose = "gradients"};
  EXPECT_EQ(shape_of("2-hop", reduce),
            (ReduceShape{"2-hop", kCount, Dtype::bf16, int4, int8, 2, Dtype::fp32, true}));
  reduce.parts.stride = kCount + 1;
  EXPECT_FALSE(shape_of("2-hop", reduce).dense);
}

TEST(PlanCosts, MicroStepsThatAreRepeatedTakeWhatAllTake) {
  Cluster cluster = round_numbers(4);
  cluster.rails.lanes.front().rate = 2e9;
  for (const std::size_t micro_steps : {1U, 2U, 7U, 40U}) {
    config::TrainConfig config = resolved(3);
    config.gradient_accumulation_steps = micro_steps;
    config.zero.accumulation_steps = micro_steps;
    config.zero.hpz_partition_size = 4;
    const PlannedRun run(config, planned_topology(2, 4), 5000);
    const double seconds = step_seconds(run, cluster);
    EXPECT_NEAR(seconds, step_time(run, cluster).timeline.seconds, 1e-9 * seconds) << micro_steps;
  }
}

/// Two hops of many buckets: one's way out of the node covers the next one's way inside.
TEST(PlanCosts, ReductionsInTurnTakeLonger) {
  Cluster cluster = round_numbers(4);
  cluster.rails.lanes.front().rate = 1e9;
  cluster.node_links.rate = cluster.node_links.most = 6e9;
  config::TrainConfig config = resolved(2);  // whose backward gathers nothing
  config.zero.quantized_gradients = true;
  config.zero.reduce_bucket_size = 1 << 20U;
  const double together = timed(config, cluster).seconds;
  cluster.engine.reductions_at_a_time = 1;
  EXPECT_GT(timed(config, cluster).seconds, 1.05 * together);
}

/// Before a reduction, gradients in fp32 are searched for values beyond the range of fp16.
TEST(PlanCosts, GradientsAreReadOnceMoreInFp16) {
  Cluster cluster = round_numbers(4);
  cluster.engine.overlap = 0;
  config::TrainConfig config = resolved(3);
  const PlannedRun run(config, planned_topology(2, 4), 5000);
  double values = 0;
  for (const zero::UnitPartition& unit : run.plans().step.input.units) {
    values += static_cast<double>(unit.padded);
  }
  const double before = timed(config, cluster).seconds;
  config.bf16 = false;
  config.fp16 = true;
  config.zero.compute = Dtype::fp16;
  EXPECT_NEAR(timed(config, cluster).seconds - before, 4 * values / 1e12, 1e-9);
}

TEST(PlanCosts, NarrowGradientsMoveLess) {
  Cluster cluster = round_numbers(4);
  cluster.gpu.memory_rate = 1e10;  // what encodes binds
  config::TrainConfig config = resolved(3);
  const double wide = timed(config, cluster).seconds;
  config.zero.gradient_dtype = Dtype::bf16;
  EXPECT_LT(timed(config, cluster).seconds, 0.95 * wide);
}

config::TrainConfig offloaded(std::size_t buffers, std::size_t piece) {
  config::TrainConfig config = resolved(3);
  config.zero.offload_optimizer.device = zero::OffloadDevice::cpu;
  config.zero.offload_optimizer.buffer_count = buffers;
  config.zero.offload_optimizer.piece_size = piece;
  return config;
}

TEST(PlanCosts, OptimizersOnTheHostPipelineTheirPieces) {
  // AdamW in bf16: 4 bytes down, 2 up, for each of 1000 elements a piece. Its memory carries these,
  // 30 that the rule reads and writes, and 2 of lines that are fetched before they are written.
  const double down = 4e-6;
  const double step = 38e-6;
  const double up = 2e-6;
  const std::vector<std::size_t> counts{3000, 2000};
  const auto updates = [&](std::size_t buffers, double link, double memory) {
    return offloaded_updates(counts, offloaded(buffers, 1000), {.link = link, .memory = memory});
  };
  // The host is the slowest: the first piece comes, all are stepped, the last goes.
  std::vector<double> units = updates(4, 1e9, 1e9);
  EXPECT_NEAR(units[0], down + 3 * step, 1e-12);
  EXPECT_NEAR(units[1], 2 * step + up, 1e-12);
  // Its links are: nothing but the last piece's step and way back shows beside the way down.
  units = updates(4, 1e9, 1e11);
  EXPECT_NEAR(units[0] + units[1], 5 * down + step / 100 + up, 1e-12);
  // One buffer: a piece sets out when the one before was stepped, and is stepped when that left.
  units = updates(1, 1e9, 1e9);
  EXPECT_NEAR(units[0] + units[1], 5 * (down + step) + up, 1e-12);
  // Weights that stay there do not go back, nor does the link read them.
  config::TrainConfig config = offloaded(4, 1000);
  config.zero.offload_param.device = zero::OffloadDevice::cpu;
  units = offloaded_updates(counts, config, {.link = 1e9, .memory = 1e9});
  EXPECT_NEAR(units[1], 2 * (step - up), 1e-12);
  // In fp32 nothing is written beside the master, which goes back itself.
  config = offloaded(4, 1000);
  config.zero.compute = Dtype::fp32;
  units = offloaded_updates(counts, config, {.link = 1e9, .memory = 1e9});
  EXPECT_NEAR(units[0], down + 3 * 36e-6, 1e-12);
  config.zero.offload_optimizer.ratio = 0;
  EXPECT_EQ(offloaded_updates(counts, config, {.link = 1e9, .memory = 1e9}),
            (std::vector<double>{0, 0}));
}

TEST(PlanCosts, StepsWaitForInputsOnTheHost) {
  Cluster cluster = round_numbers(4);
  config::TrainConfig config = resolved(3);
  config.model.recompute_activations = true;
  const double before = timed(config, cluster).seconds;
  config.model.cpu_checkpointing = true;
  EXPECT_THROW(timed(config, cluster), Error);
  cluster.host = {.link_rate = 1e13, .memory_rate = 1e10};
  EXPECT_EQ(timed(config, cluster).seconds, before);
  cluster.host.link_rate = 1e7;  // two of four inputs, out and back
  EXPECT_GT(timed(config, cluster).seconds, 4 * 2.0 * 512 * 1024 * 2 / 1e7);
}

/// Where nothing overlaps, the step time grows by the time of the copies over the link.
TEST(PlanCosts, CopiesOnTheHostComeAndGoOverTheLinkOfTheGpu) {
  Cluster cluster = round_numbers(4);
  cluster.engine.overlap = 0;
  for (const auto& [differences, depth] :
       {std::pair(false, 1), std::pair(true, 1), std::pair(true, 4)}) {
    config::TrainConfig config = resolved(3);
    config.zero.hpz_partition_size = 4;
    config.zero.quantized_weights = differences;
    config.zero.weight_differences.enabled = differences;
    config.zero.pipeline_depth = static_cast<std::size_t>(depth);
    config.zero.hpz_device = zero::HpzDevice::cpu;
    cluster.host = {};
    EXPECT_THROW(timed(config, cluster), Error);
    cluster.host = {.link_rate = 1e8, .memory_rate = 1e10};
    PlannedRun run(config, planned_topology(2, 4), 5000);
    run.plan_step(1);
    double moved = 0;
    double on_gpu = 0;  // seconds of copies on the GPU, not over the link
    for (const zero::Op& op : run.plans().step.step.stale.ops) {
      if (op.kind != zero::OpKind::gather_secondary && op.kind != zero::OpKind::keep_secondary &&
          op.kind != zero::OpKind::exchange) {
        continue;
      }
      const zero::UnitPartition& unit = run.plans().units[op.index];
      const double copy = 2.0 * static_cast<double>(unit.secondary);
      moved += copy + (op.kind == zero::OpKind::exchange ? copy : 0);
      on_gpu += op.kind == zero::OpKind::keep_secondary ? 2 * copy / 1e12 : 0;
    }
    EXPECT_GT(moved, 0);
    const double on_host = step_time(run, cluster).seconds;
    config.zero.hpz_device = zero::HpzDevice::device;
    PlannedRun there(config, planned_topology(2, 4), 5000);
    there.plan_step(1);
    EXPECT_NEAR(on_host - step_time(there, cluster).seconds, moved / 1e8 - on_gpu, 1e-6)
        << differences << " " << depth;
  }
}

/// Units that persist have no copy: a cluster need not say what the link carries.
TEST(PlanCosts, CopiesThatNobodyKeepNeedNoLink) {
  const Cluster cluster = round_numbers(4);
  config::TrainConfig config = resolved(3);
  config.zero.hpz_partition_size = 4;
  config.zero.persistence_threshold = 1'000'000'000;
  config.zero.model_persistence_threshold = 1'000'000'000;
  const double there = timed(config, cluster).seconds;
  config.zero.hpz_device = zero::HpzDevice::cpu;
  EXPECT_EQ(timed(config, cluster).seconds, there);
  config.zero.persistence_threshold = 0;
  EXPECT_THROW(timed(config, cluster), Error);
}

TEST(PlanCosts, OffloadTakesTheTimeOfTheHost) {
  Cluster cluster = round_numbers(4);
  config::TrainConfig config = offloaded(4, 4096);
  EXPECT_THROW(timed(config, cluster), Error);
  const double before = timed(resolved(3), cluster).seconds;
  // The rates are shared by four ranks.
  cluster.host = {.link_rate = 1e10, .memory_rate = 4e9, .pageable_rate = 1e6};
  const StepTime step = timed(config, cluster);
  const PlannedRun run(config, planned_topology(2, 4), 5000);
  double values = 0;
  for (const zero::UnitPartition& unit : run.plans().units) {
    values += static_cast<double>(unit.shard);
  }
  EXPECT_STREQ(step.bound, "the optimizer on the host");
  EXPECT_NEAR(step.optimizer, values * 38 / 1e9, 0.05 * step.optimizer);
  EXPECT_NEAR(step.optimizer + step.forward + step.backward, step.seconds, 1e-9);
  EXPECT_NEAR(step.compute + step.exposed, step.seconds, 1e-9);
  EXPECT_GT(step.seconds, before + 0.9 * step.optimizer);
  // Parameters there as well: every global gather brings the own shard first, as fast as its kind
  // of memory lets it.
  config.zero.offload_param.device = zero::OffloadDevice::cpu;
  EXPECT_STREQ(timed(config, cluster).bound, "links to the host");
  config.zero.offload_param.pin_memory = true;
  EXPECT_STREQ(timed(config, cluster).bound, "the optimizer on the host");
  cluster.host.link_rate = 1e6;
  EXPECT_STREQ(timed(config, cluster).bound, "links to the host");
  config.zero.offload_optimizer.device = zero::OffloadDevice::nvme;
  EXPECT_THROW(timed(config, cluster), Error);
}

TEST(PlanCosts, AnEngineMayHideLess) {
  Cluster cluster = round_numbers(4);
  cluster.rails.lanes.front().rate = 1e9;
  const StepTime all = timed(resolved(3), cluster);
  cluster.engine.overlap = 0;
  const StepTime none = timed(resolved(3), cluster);
  cluster.engine.overlap = 0.25;
  const StepTime some = timed(resolved(3), cluster);
  EXPECT_GT(none.seconds, all.seconds);
  EXPECT_NEAR(some.seconds, 0.75 * none.seconds + 0.25 * all.seconds, 1e-12);
  // Fewer parameters live than two layers have: as if nothing were hidden.
  cluster.engine.max_live_parameters = 1000;
  EXPECT_DOUBLE_EQ(timed(resolved(3), cluster).seconds, none.seconds);
}

}  // namespace
}  // namespace zeropp::plan
