// ctest: name=zero_resident_differences np=1,3,4 cuda=mpi,nccl timeout=300 labels=sanitize
// Weight differences at stages 1 and 2, on one node and on several, against a plain simulation of
// the resident weights: every rank has its bits after each step, for any codec and algorithm, with
// skipped steps. Stages 1 and 2, and stage 3 with hpZ, give the same training; with whole weights
// in every step, uncompressed, they train as without differences. Bytes equal the closed form.
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "kernels/codec/codec.hpp"
#include "tests/support/copy_simulation.hpp"
#include "tests/support/engine_case.hpp"

namespace zeropp::test {
namespace {

zero::Options resident_differences(int stage, const std::string& codec, Dtype compute) {
  zero::Options options;
  options.stage = stage;
  options.deterministic = true;
  options.compute = compute;
  options.quantized_weights = true;
  options.weight_codec = codec::parse_codec("int8:64");
  options.weight_differences = {.enabled = true, .codec = codec::parse_codec(codec)};
  return options;
}

EngineCase resident_case(const zero::Options& options, int node_size) {
  return {options, node_size, [](const model::Context& context) { return make_tiny_gpt(context); }};
}

/// Trains, and compares the resident weights of all ranks with the simulation's after each step.
/// Returns how many steps were skipped.
std::size_t expect_residents_of_the_simulation(const zero::Options& options, int node_size,
                                               std::uint64_t steps) {
  SCOPED_TRACE(codec::to_string(options.weight_differences.codec) + " " +
               std::string(name_of(options.compute)) + " stage " + std::to_string(options.stage) +
               " " + options.all_gather_algorithm);
  EngineCase engine_case = resident_case(options, node_size);
  zero::Engine& engine = engine_case.engine();
  const auto& units = engine.plan().input.units;
  CopySimulation simulation(options, units);
  const bool is_root = world().control().rank() == 0;
  const std::size_t interval = options.weight_differences.refresh_interval;
  const auto follow = [&](bool whole) {
    for (std::size_t u = 0; u < units.size(); ++u) {
      std::vector<float> weights = engine.gather_master(u);
      if (is_root) simulation.follow(u, std::move(weights), whole);
    }
  };
  follow(/*whole=*/true);
  std::size_t skipped = 0;
  for (std::uint64_t step = 0; step < steps; ++step) {
    if (engine_case.step(step).skipped) {
      ++skipped;
    } else {
      follow(interval > 0 && (step + 1) % interval == 0);
    }
    const std::vector<std::string> hashes = engine.copy_hashes();
    if (!is_root) continue;
    EXPECT_EQ(hashes.size(), static_cast<std::size_t>(world().size()));
    for (const std::string& hash : hashes) EXPECT_EQ(hash, simulation.hash()) << "step " << step;
  }
  return skipped;
}

TEST(ResidentDifferences, EveryRankHoldsTheWeightsOfThePlainSimulation) {
  for (const char* codec : {"int4:128", "int8:32", "int3:64+asym", "mxfp4", "none"}) {
    for (const Dtype compute : {Dtype::bf16, Dtype::fp16, Dtype::fp32}) {
      const int stage = compute == Dtype::fp16 ? 1 : 2;
      expect_residents_of_the_simulation(resident_differences(stage, codec, compute),
                                         node_size_of_four(), 4);
    }
  }
}

TEST(ResidentDifferences, EveryAlgorithmAddsThem) {
  for (const char* algorithm : {"flat", "direct", "two-level", "native-images"}) {
    for (const int node_size : {1, world().size()}) {
      zero::Options options = resident_differences(1, "int4:32", Dtype::bf16);
      options.all_gather_algorithm = algorithm;
      options.pipeline_depth = std::string_view(algorithm) == "direct" ? 1 : 3;
      expect_residents_of_the_simulation(options, node_size, 3);
    }
  }
}

TEST(ResidentDifferences, WholeWeightsGoAtTheirInterval) {
  zero::Options options = resident_differences(2, "int4:32", Dtype::bf16);
  options.weight_differences.refresh_interval = 3;
  options.accumulation_steps = 2;
  options.pipeline_depth = 3;
  for (const char* whole : {"int8:64", "none"}) {
    options.weight_codec = codec::parse_codec(whole);
    expect_residents_of_the_simulation(options, node_size_of_four(), 7);
  }
}

TEST(ResidentDifferences, FollowUpdatesInBackwardAndOnTheHost) {
  zero::Options options = resident_differences(2, "int4:128", Dtype::bf16);
  options.update_in_backward = true;
  expect_residents_of_the_simulation(options, node_size_of_four(), 4);
  options.update_in_backward = false;
  options.offload_optimizer.device = zero::OffloadDevice::cpu;
  options.offload_optimizer.ratio = 0.5;
  expect_residents_of_the_simulation(options, node_size_of_four(), 4);
}

TEST(ResidentDifferences, AreNotSentInASkippedStep) {
  zero::Options options = resident_differences(2, "int4:128", Dtype::fp16);
  options.loss_scale.initial_power = 40;
  options.weight_differences.refresh_interval = 4;
  const std::size_t skipped = expect_residents_of_the_simulation(options, node_size_of_four(), 30);
  EXPECT_GT(skipped, 2U);
  EXPECT_LT(skipped, 30U);
}

TEST(ResidentDifferences, TrainAlikeAtEveryStage) {
  const int node_size = node_size_of_four();
  const auto run = [&](int stage, int nodes_of) {
    zero::Options options = resident_differences(stage, "int4:128", Dtype::bf16);
    options.weight_differences.refresh_interval = 4;
    if (stage == 3) options.hpz_partition_size = static_cast<std::size_t>(nodes_of);
    EngineCase engine_case = resident_case(options, nodes_of);
    const Outcome outcome = engine_case.train(6, 1);  // evaluations bring the copies of stage 3 up
    return std::pair(outcome.hash, engine_case.engine().copy_hashes());
  };
  const auto [hash, copies] = run(1, node_size);
  const auto other = run(2, node_size);
  EXPECT_EQ(other.first, hash);
  EXPECT_EQ(other.second, copies);
  // Stage 3 needs several nodes, or one rank; its copies are the nodes'.
  for (const int nodes_of : {1, 2}) {
    if (world().size() % nodes_of != 0 || (world().size() == nodes_of && nodes_of > 1)) continue;
    const auto [of_nodes, node_copies] = run(3, nodes_of);
    EXPECT_EQ(of_nodes, hash) << nodes_of;
    if (world().control().rank() != 0) continue;
    EXPECT_EQ(node_copies.front(), copies.front()) << nodes_of;
  }
}

TEST(ResidentDifferences, WithWholeWeightsInEveryStepTrainAsWithoutCompression) {
  for (const int stage : {1, 2}) {
    zero::Options options = resident_differences(stage, "int4:128", Dtype::bf16);
    options.weight_differences.refresh_interval = 1;
    options.weight_codec = {};
    const std::string hash = resident_case(options, node_size_of_four()).train(4, 2).hash;
    options.weight_differences = {};
    options.quantized_weights = false;
    EXPECT_EQ(resident_case(options, node_size_of_four()).train(4, 2).hash, hash) << stage;
  }
}

TEST(ResidentDifferences, SendTheBytesOfTheirCodes) {
  EngineCase engine_case =
      resident_case(resident_differences(1, "int4:128", Dtype::bf16), world().size());
  const auto sent = [&](const std::string& purpose, const std::string& phase) {
    std::uint64_t bytes = 0;
    std::uint64_t calls = 0;
    for (const trace::CollectiveRow& row : engine_case.recorder().collectives) {
      if (row.purpose != purpose || row.phase != phase) continue;
      bytes += row.wire_bytes_intra;
      calls += row.calls;
      EXPECT_EQ(row.wire_bytes_inter, 0U);
    }
    return std::pair(bytes, calls);
  };
  (void)engine_case.step(0);
  (void)engine_case.step(1);
  const auto& units = engine_case.engine().plan().input.units;
  EXPECT_EQ(sent("weights", "initial").second, units.size());
  EXPECT_EQ(sent("weights", "update").second, 0U);
  std::uint64_t expected = 0;
  for (const zero::UnitPartition& unit : units) {
    const std::size_t blocks = (unit.shard + 127) / 128;
    expected += 2 * static_cast<std::uint64_t>(world().size() - 1) *
                ((blocks * 64 + 15) / 16 * 16 + (blocks * 2 + 15) / 16 * 16);
  }
  EXPECT_EQ(sent("weights_difference", "update"), std::pair(expected, 2 * units.size()));
}

TEST(ResidentDifferences, OfRandomRoundingAreTheSameInEveryRunAndOnEveryRank) {
  const auto run = [] {
    EngineCase engine_case =
        resident_case(resident_differences(2, "int4:64+sr", Dtype::bf16), node_size_of_four());
    const std::string hash = engine_case.train(3).hash;
    const std::vector<std::string> copies = engine_case.engine().copy_hashes();
    for (const std::string& copy : copies) EXPECT_EQ(copy, copies.front());
    return std::pair(hash, copies);
  };
  EXPECT_EQ(run(), run());
}

}  // namespace
}  // namespace zeropp::test
