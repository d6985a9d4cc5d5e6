// ctest: name=plan_estimates timeout=120 labels=sanitize
// Bytes and memory of planned runs against closed forms that are written here again: the bytes that
// leave a node with ZeRO-3, with each part of ZeRO++ and at stages 0 to 2, and the memory of a
// rank. And a model's description equals the model.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <set>
#include <stdexcept>
#include <string_view>

#include "lib/base/error.hpp"
#include "lib/model/registry.hpp"
#include "lib/plan/estimate.hpp"
#include "lib/plan/planned_topology.hpp"
#include "lib/zero/plan/weight_image_memory.hpp"
#include "tests/support/usage_refusal.hpp"

namespace zeropp::plan {
namespace {

constexpr std::size_t kVocab = 512;

/// A GPT in bf16 whose units need no padding on up to 64 ranks, resolved by hand.
config::TrainConfig gpt(int stage, std::size_t ranks) {
  config::TrainConfig config;
  config.model = {.num_layers = 3,
                  .hidden_size = 1024,
                  .num_attention_heads = 16,
                  .seq_length = 64,
                  .vocab_size = kVocab,
                  .tied_head = false};
  config.bf16 = true;
  config.backend = Backend::host;
  config.transport = comm::Transport::mpi;
  config.zero.stage = stage;
  config.zero.compute = Dtype::bf16;
  config.zero.all_gather_algorithm = "flat";
  config.zero.secondary_gather_algorithm = "flat";
  config.zero.reduce_scatter_algorithm = "flat";
  config.train_micro_batch_size_per_gpu = 1;
  config.gradient_accumulation_steps = 1;
  config.train_batch_size = ranks;
  return config;
}

config::TrainConfig with_zeropp(config::TrainConfig config, std::size_t ranks_per_node) {
  config.zero.quantized_weights = true;
  config.zero.quantized_gradients = true;
  config.zero.hpz_partition_size = ranks_per_node;
  config.zero.reduce_scatter_algorithm = "2-hop";
  return config;
}

/// Parameters of gpt(): embedding, three blocks, head.
constexpr double parameters() {
  constexpr double c = 1024;
  return (kVocab + 64) * c + 3 * (12 * c * c + 13 * c) + 2 * c + kVocab * c;
}

Estimate of(const config::TrainConfig& config, std::size_t nodes, std::size_t local) {
  return estimate(PlannedRun(config, planned_topology(nodes, local), kVocab));
}

double out_of_node(const Sent& sent, std::size_t nodes) {
  return static_cast<double>(sent.bytes.inter) / static_cast<double>(nodes);
}

TEST(PlannedBytes, FlatRingSendsThreeTimesTheModel) {
  for (const std::size_t nodes : {2, 4, 8}) {
    const std::size_t ranks = 8 * nodes;
    const Estimate e = of(gpt(3, ranks), nodes, 8);
    const double model =
        2 * parameters() * static_cast<double>(ranks - 1) / static_cast<double>(ranks);
    EXPECT_DOUBLE_EQ(out_of_node(e.step.forward, nodes), model);
    EXPECT_DOUBLE_EQ(out_of_node(e.step.backward, nodes), 2 * model);
    EXPECT_EQ(e.step.update, Sent{});
    EXPECT_EQ(e.step.modelled, Sent{});
  }
}

// Savings over ZeRO-3 with gathers on a flat ring in both: 4.68, 4.26, 3.96 at 2, 4 and 48 nodes of
// 8 with int8:256 and int4:128; from the shares of a ring and of a hop across nodes.
TEST(PlannedBytes, SavingsOfAllThree) {
  for (const auto& [nodes, expected] : {std::pair<std::size_t, double>{2, 4.68}, {4, 4.26}}) {
    const auto ranks = static_cast<double>(8 * nodes);
    const double before = out_of_node(of(gpt(3, 8 * nodes), nodes, 8).step.total(), nodes);
    const Estimate e = of(with_zeropp(gpt(3, 8 * nodes), 8), nodes, 8);
    const double after = out_of_node(e.step.total(), nodes);
    EXPECT_NEAR(before / after, expected, 0.01);
    const double gathers = (ranks - 1) / ranks * parameters() * (1 + 2.0 / 256);
    const double reductions =
        (1 - 1 / static_cast<double>(nodes)) * parameters() / 2 * (1 + 2.0 / 64);
    EXPECT_NEAR(out_of_node(e.step.forward, nodes), gathers, 1e-3 * gathers);
    EXPECT_NEAR(out_of_node(e.step.backward, nodes), reductions, 1e-3 * reductions);
  }
}

TEST(PlannedBytes, HpzGathersAcrossNodesOnceAStep) {
  config::TrainConfig config = with_zeropp(gpt(3, 32), 8);
  config.zero.accumulation_steps = config.gradient_accumulation_steps = 3;
  config.train_batch_size = 96;
  const Estimate e = of(config, 4, 8);
  config.zero.accumulation_steps = config.gradient_accumulation_steps = 1;
  config.train_batch_size = 32;
  const Estimate once = of(config, 4, 8);
  EXPECT_EQ(e.step.forward.bytes.inter, once.step.forward.bytes.inter);
  EXPECT_EQ(e.step.backward.bytes.inter, 3 * once.step.backward.bytes.inter);
  EXPECT_EQ(once.step_same_weights.forward.bytes.inter, 0U);
  EXPECT_EQ(once.evaluation.bytes.inter, once.step.forward.bytes.inter);
}

TEST(PlannedBytes, AStepAfterAnEvaluationFindsItsWeights) {
  config::TrainConfig config = with_zeropp(gpt(3, 32), 8);
  const Estimate plain = of(config, 4, 8);
  config.evaluation_interval = 3;
  PlannedRun run(config, planned_topology(4, 8), kVocab);
  for (const std::size_t step : {0U, 1U, 2U, 3U, 4U, 6U}) {
    run.plan_step(step);
    EXPECT_EQ(run.follows_evaluation(), step % 3 == 0) << step;
    const Estimate e = estimate(run);
    const StepTraffic& expected = step % 3 == 0 ? plain.step_same_weights : plain.step;
    EXPECT_EQ(e.step.total(), expected.total()) << step;
    EXPECT_EQ(e.step_same_weights.total(), plain.step_same_weights.total()) << step;
    Sent sum;
    for (const PlannedCollective& each : e.collectives) {
      sum += {{each.row.wire_bytes_intra, each.row.wire_bytes_inter}, each.messages};
    }
    EXPECT_EQ(sum, expected.total()) << step;
  }
}

TEST(PlannedBytes, StagesBelowThree) {
  const double model = 2 * parameters() * 15 / 16;
  for (const int stage : {1, 2}) {
    const Estimate e = of(gpt(stage, 16), 2, 8);
    EXPECT_EQ(e.step.forward, Sent{});
    EXPECT_DOUBLE_EQ(out_of_node(e.step.backward, 2), model);
    EXPECT_DOUBLE_EQ(out_of_node(e.step.update, 2), model);
    EXPECT_EQ(e.initial, e.step.update);
  }
  // Sums are gathered in fp32.
  const Estimate e = of(gpt(0, 16), 2, 8);
  EXPECT_DOUBLE_EQ(out_of_node(e.step.backward, 2), 3 * model);
  EXPECT_EQ(e.initial, Sent{});
}

TEST(PlannedBytes, DifferencesBelowStageThreeSendTheirCodes) {
  for (const int stage : {1, 2}) {
    config::TrainConfig config = gpt(stage, 16);
    config.zero.quantized_weights = true;
    const Estimate whole = of(config, 2, 8);
    config.zero.weight_differences.enabled = true;
    const Estimate e = of(config, 2, 8);
    EXPECT_EQ(e.initial, whole.initial);
    EXPECT_EQ(whole.step.update, whole.initial);
    const double ratio = out_of_node(e.step.update, 2) / out_of_node(whole.step.update, 2);
    EXPECT_NEAR(ratio, (0.5 + 2.0 / 128) / (1 + 2.0 / 256), 0.001);
    EXPECT_EQ(e.step.backward, whole.step.backward);
    config.zero.weight_differences.refresh_interval = 1;
    EXPECT_EQ(of(config, 2, 8).step.update, whole.step.update);
  }
}

TEST(PlannedBytes, OneRankSendsNothing) {
  for (const int stage : {0, 1, 2, 3}) {
    EXPECT_EQ(of(gpt(stage, 1), 1, 1).step.total(), Sent{}) << stage;
  }
}

// A trillion parameters in bf16, twice over 100,000 ranks for each of 256 micro-steps.
TEST(PlannedBytes, MoreThanCanBeCountedIsRefused) {
  const auto large = [](std::size_t micro_steps) {
    config::TrainConfig config = gpt(3, 100'000);
    config.model.num_layers = 192;
    config.model.hidden_size = 20480;
    config.model.num_attention_heads = 160;
    config.gradient_accumulation_steps = config.zero.accumulation_steps = micro_steps;
    config.train_batch_size = 100'000 * micro_steps;
    return config;
  };
  const double each = 2 * 12 * 192 * 20480. * 20480. * 100'000;
  const Estimate e = of(large(1), 12'500, 8);
  const auto received =
      static_cast<double>(e.step.forward.bytes.intra + e.step.forward.bytes.inter);
  EXPECT_NEAR(received, each, 0.01 * each);
  EXPECT_THROW((void)of(large(256), 12'500, 8), Error);
}

TEST(PlannedBytes, CollectivesAddUp) {
  const Estimate e = of(with_zeropp(gpt(3, 32), 8), 4, 8);
  Sent sum;
  for (const auto& [row, messages] : e.collectives) {
    sum += {{row.wire_bytes_intra, row.wire_bytes_inter}, messages};
    // A bucket closes when it holds 2^24 elements: two of three blocks do.
    EXPECT_EQ(row.calls, row.purpose == "gradients" ? 2U : 5U) << row.purpose;
  }
  EXPECT_EQ(sum, e.step.total());
}

// A ring has a step for each other rank; a hop a message to each of its other members.
TEST(PlannedMessages, OfRingsAndHops) {
  constexpr std::size_t kNodes = 4;
  constexpr std::size_t kLocal = 8;
  constexpr std::size_t kRanks = kNodes * kLocal;
  constexpr std::size_t kUnits = 5;
  constexpr std::size_t kBuckets = 2;
  const Estimate flat = of(gpt(3, kRanks), kNodes, kLocal);
  // The last rank of each node passes on across nodes, the others inside.
  const auto ring = [](std::size_t times) {
    return collective::Messages{times * (kRanks - 1) * kNodes * (kLocal - 1),
                                times * (kRanks - 1) * kNodes};
  };
  EXPECT_EQ(flat.step.forward.messages, ring(kUnits));
  EXPECT_EQ(flat.step.backward.messages, ring(kUnits + kBuckets));

  config::TrainConfig config = with_zeropp(gpt(3, kRanks), kLocal);
  config.zero.all_gather_algorithm = "two-level";
  config.zero.secondary_gather_algorithm = "direct";
  const Estimate e = of(config, kNodes, kLocal);
  const collective::Messages hops{kRanks * (kLocal - 1), kRanks * (kNodes - 1)};
  EXPECT_EQ(e.step.forward.messages,
            (collective::Messages{kUnits * hops.intra, kUnits * hops.inter}));
  EXPECT_EQ(e.step.backward.messages,
            (collective::Messages{(kUnits + kBuckets) * hops.intra, kBuckets * hops.inter}));

  // A pipeline cuts parts of whole blocks; what has fewer blocks than its depth has fewer chunks.
  config.zero.pipeline_depth = 3;
  const Estimate cut = of(config, kNodes, kLocal);
  EXPECT_EQ(cut.step.total().bytes, e.step.total().bytes);
  EXPECT_EQ(cut.step.forward.messages,
            (collective::Messages{3 * kUnits * hops.intra, 3 * kUnits * hops.inter}));
}

TEST(PlannedMemory, StateByStage) {
  const double p = parameters();
  // Bytes per parameter: master, two moments, and the state that the stage keeps beside them.
  const auto state = [&](int stage) {
    const Estimate e = of(gpt(stage, 16), 2, 8);
    double bytes = 0;
    for (const zero::MemoryPart& part : e.memory) {
      if (part.name != "arena" && part.name != "activations")
        bytes += static_cast<double>(part.bytes);
    }
    return bytes;
  };
  EXPECT_DOUBLE_EQ(state(0), p * (12 + 2 + 4));
  EXPECT_DOUBLE_EQ(state(1), p * ((12 + 4) / 16.0 + 2 + 4));
  EXPECT_DOUBLE_EQ(state(2), p * ((12 + 4) / 16.0 + 2));
  EXPECT_DOUBLE_EQ(state(3), p * (12 + 4) / 16.0);
}

TEST(PlannedMemory, SumsItsParts) {
  config::TrainConfig config = with_zeropp(gpt(3, 16), 8);
  config.zero.error_feedback.hops = zero::FeedbackHops::both;
  const Estimate e = of(config, 2, 8);
  const auto part = [&](const std::string& name) {
    for (const zero::MemoryPart& each : e.memory) {
      if (each.name == name) return static_cast<double>(each.bytes);
    }
    return -1.0;
  };
  EXPECT_DOUBLE_EQ(part("secondary"), parameters() * 2 / 8);
  // Both copies are in fp32: of all values in the first hop, of the own rail's values in the
  // second.
  EXPECT_NEAR(part("error_feedback_intra"), parameters() * 8, 1e4);
  EXPECT_NEAR(part("error_feedback_inter"), parameters() * 8 / 8, 1e4);
  EXPECT_GT(part("arena"), 2 * 2 * 12.0 * 1024 * 1024);  // two blocks gathered, at least
  EXPECT_EQ(e.memory_bytes, std::accumulate(e.memory.begin(), e.memory.end(), std::size_t{0},
                                            [](std::size_t sum, const zero::MemoryPart& each) {
                                              return sum + each.bytes;
                                            }));
}

/// Inputs on the host take the same number of bytes as inputs on the device.
TEST(PlannedMemory, InputsOnTheHost) {
  config::TrainConfig config = gpt(3, 16);
  config.model.recompute_activations = true;
  const Estimate there = of(config, 2, 8);
  config.model.cpu_checkpointing = true;
  const Estimate away = of(config, 2, 8);
  ASSERT_EQ(away.memory.back().name, "offloaded_activations");
  const std::size_t input =
      config.train_micro_batch_size_per_gpu * config.model.seq_length * config.model.hidden_size;
  EXPECT_EQ(away.memory.back().bytes, (config.model.num_layers - 2) * input * 4);
  EXPECT_EQ(there.memory_bytes - away.memory_bytes, away.memory.back().bytes);
}

// 128 blocks of width 25,600 on 4,096 ranks: counted in 64 bits, and the parameters by hand.
TEST(PlannedRun, OfATrillionParameters) {
  config::TrainConfig config = with_zeropp(gpt(3, 4096), 8);
  config.model.num_layers = 128;
  config.model.hidden_size = 25'600;
  config.model.num_attention_heads = 160;
  const Estimate e = of(config, 512, 8);
  const double c = 25'600;
  const double expected = 128 * (12 * c * c + 13 * c) + (2 * kVocab + 64 + 2) * c;
  EXPECT_DOUBLE_EQ(static_cast<double>(e.parameters), expected);
  EXPECT_GT(expected, 1e12);
  EXPECT_NEAR(out_of_node(e.step.forward, 512), expected * (1 + 2.0 / 256), 1e-3 * expected);
}

TEST(PlannedRun, RefusesWhatItCannotKnow) {
  config::TrainConfig config = gpt(3, 2);
  config.zero.adaptive_bits.values = zero::AdaptedValues::weights;
  EXPECT_THROW(PlannedRun(config, planned_topology(1, 2), kVocab), Error);
  EXPECT_THROW(planned_topology(0, 8), Error);
  EXPECT_THROW(planned_topology(std::size_t{1} << 31U, 2), Error);
}

std::size_t bytes_of(const std::vector<zero::MemoryPart>& parts, std::string_view name) {
  const auto found = std::ranges::find(parts, name, &zero::MemoryPart::name);
  return found == parts.end() ? 0 : found->bytes;
}

/// Counted weight by weight: an entry of 40 bytes for each 4096 weights of a chunk of the first
/// rank's shard, and 72 bytes for each tensor that has some of them.
TEST(PlannedRun, TablesOfFusedUpdatesAreInTheMemory) {
  config::TrainConfig config = with_zeropp(gpt(3, 4), 2);
  config.zero.keep_weight_images = true;
  config.zero.weight_codec = codec::parse_codec("int4:128");
  for (const std::size_t depth : {1U, 3U}) {
    config.zero.pipeline_depth = depth;
    const PlannedRun run(config, planned_topology(2, 2), kVocab);
    std::size_t expected = 0;
    for (std::size_t u = 0; u < run.model().units.size(); ++u) {
      const zero::Unit& unit = run.model().units[u];
      std::vector<int> owner(unit.count + run.plans().units[u].padded, -1);
      for (std::size_t t = 0; t < unit.tensors.size(); ++t)
        std::fill_n(owner.begin() + static_cast<std::ptrdiff_t>(unit.tensors[t].offset),
                    unit.tensors[t].count(), static_cast<int>(t));
      const std::size_t shard = run.plans().units[u].shard;
      const std::size_t quanta = (shard + 2047) / 2048;  // of 16 blocks
      for (std::size_t c = 0; c < depth; ++c) {
        const std::size_t end = std::min(shard, quanta * (c + 1) / depth * 2048);
        for (std::size_t at = quanta * c / depth * 2048; at < end; at += 4096) {
          std::set<int> tensors(
              owner.begin() + static_cast<std::ptrdiff_t>(at),
              owner.begin() + static_cast<std::ptrdiff_t>(std::min(end, at + 4096)));
          tensors.erase(-1);
          expected += 40 + 72 * tensors.size();
        }
      }
    }
    const std::size_t planned = bytes_of(run.memory(), zero::kWeightImageTables);
    EXPECT_EQ(planned, expected);
    const double about = 112.0 * parameters() / 4 / 4096;
    EXPECT_NEAR(static_cast<double>(planned), about, 0.02 * about);
  }
  config.optimizer.type = "Lion";
  EXPECT_EQ(bytes_of(PlannedRun(config, planned_topology(2, 2), kVocab).memory(),
                     zero::kWeightImageTables),
            0U);
}

TEST(PlannedRun, RefusesToKeepImagesThatNobodyEncodes) {
  config::TrainConfig config = with_zeropp(gpt(3, 4), 2);
  config.zero.keep_weight_images = true;
  const auto planned = [&] { (void)PlannedRun(config, planned_topology(2, 2), kVocab); };
  EXPECT_NO_THROW(planned());
  const auto refused = [&](const char* why) {
    EXPECT_THAT(test::refusal(planned),
                testing::AllOf(testing::HasSubstr("keep_weight_images"), testing::HasSubstr(why)));
  };
  config.zero.persistence_threshold = std::size_t{1} << 40U;
  refused("stage3_param_persistence_threshold");
  config.zero.persistence_threshold = 0;
  config.zero.codec_schedule = {{.from_step = 0, .weight_codec = codec::parse_codec("none")}};
  refused("codec_schedule");
  config.zero.codec_schedule.front().units = {"head"};
  EXPECT_NO_THROW(planned());
}

TEST(Description, IsTheModel) {
  for (const std::string_view name : model::model_names()) {
    for (const auto& [interval, ffn, kv_heads, head_dim] : {std::array{0U, 0U, 0U, 0U},
                                                            {1U, 0U, 0U, 0U},
                                                            {2U, 0U, 2U, 0U},
                                                            {0U, 100U, 1U, 0U},
                                                            {2U, 700U, 0U, 24U},
                                                            {1U, 32U, 2U, 40U}}) {
      model::Options options{.name = std::string(name),
                             .num_layers = 6,
                             .num_key_value_heads = kv_heads,
                             .head_dim = head_dim,
                             .ffn_hidden_size = ffn,
                             .recompute_activations = interval > 0,
                             .recompute_interval = std::max<std::size_t>(1, interval),
                             .cpu_checkpointing = true};
      trace::Timers timers;
      const Device device = Device::host();
      const model::Context context{
          .micro_batch = 3, .vocab_size = 100, .device = device, .timers = timers};
      const auto made = model::make_model(options, context);
      const model::Description described =
          model::describe_model(options, {.micro_batch = 3, .vocab_size = 100});
      ASSERT_EQ(described.units.size(), made->units().size());
      for (std::size_t u = 0; u < described.units.size(); ++u) {
        EXPECT_EQ(described.units[u].name, made->units()[u].name);
        EXPECT_EQ(described.units[u].count, made->units()[u].count);
      }
      ASSERT_EQ(described.layers.size(), made->layers().size());
      EXPECT_EQ(described.memory, made->memory().actual) << name;
      std::size_t offloaded = 0;
      for (const zero::MemoryReport& report : made->offloaded_memory()) offloaded += report.actual;
      EXPECT_EQ(described.offloaded_memory, offloaded) << name;
      EXPECT_EQ(offloaded > 0, interval > 0 && model::is_transformer(options)) << name;
      if (model::is_transformer(options)) {
        EXPECT_EQ(described.flops_per_token, made->flops_per_token());
        EXPECT_EQ(described.hardware_flops_per_token, made->hardware_flops_per_token());
      }
    }
  }
}

}  // namespace
}  // namespace zeropp::plan
