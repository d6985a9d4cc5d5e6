// ctest: name=zero_weight_differences np=1,3,4,6 cuda=mpi,nccl timeout=240 labels=sanitize
// Weight differences on nodes of one rank (1 and 3 ranks) and of two (4 and 6), against a plain
// simulation of the copy: every node's copy has its bits after each step, for any codec and either
// dtype; whole weights are sent in the right steps; the loss by encoding never exceeds the bound of
// one difference. With whole weights in every step, uncompressed, training equals hpZ without qwZ.
// Bytes are as predicted.
#include <gtest/gtest.h>

#include "kernels/codec/codec.hpp"
#include "tests/support/copy_simulation.hpp"
#include "tests/support/engine_case.hpp"

namespace zeropp::test {
namespace {

int node_size() { return world().size() < 4 ? 1 : 2; }

zero::Options with_differences(const std::string& codec, zero::CopyDtype copy, Dtype compute) {
  zero::Options options;
  options.deterministic = true;
  options.compute = compute;
  options.quantized_weights = true;
  options.hpz_partition_size = static_cast<std::size_t>(node_size());
  options.weight_codec = codec::parse_codec("int8:64");
  options.weight_differences = {.enabled = true, .codec = codec::parse_codec(codec), .copy = copy};
  return options;
}

EngineCase make_case(const zero::Options& options) {
  return {options, node_size(),
          [](const model::Context& context) { return make_tiny_gpt(context); }};
}

/// Trains, and compares the nodes' copies with the simulation's after each step.
void expect_the_copies_of_the_simulation(const zero::Options& options, std::uint64_t steps) {
  SCOPED_TRACE(codec::to_string(options.weight_differences.codec) + " " +
               std::string(name_of(options.compute)));
  EngineCase engine_case = make_case(options);
  zero::Engine& engine = engine_case.engine();
  const auto& units = engine.plan().input.units;
  CopySimulation simulation(options, units);
  const bool is_root = world().control().rank() == 0;
  const std::size_t interval = options.weight_differences.refresh_interval;
  for (std::uint64_t step = 0; step < steps; ++step) {
    const bool whole = step == 0 || (interval > 0 && step % interval == 0);
    for (std::size_t u = 0; u < units.size(); ++u) {
      std::vector<float> weights = engine.gather_master(u);
      if (is_root) simulation.follow(u, std::move(weights), whole);
    }
    (void)engine_case.step(step);
    const std::vector<std::string> hashes = engine.copy_hashes();
    if (!is_root) continue;
    ASSERT_EQ(hashes.size(), static_cast<std::size_t>(world().size() / node_size()));
    for (const std::string& hash : hashes) EXPECT_EQ(hash, simulation.hash()) << "step " << step;
  }
}

TEST(WeightDifferences, EveryNodeHoldsTheCopyOfThePlainSimulation) {
  using enum zero::CopyDtype;
  for (const char* codec : {"int4:128", "int8:32", "int3:64+asym", "mxfp4", "none"}) {
    for (const Dtype compute_dtype : {Dtype::bf16, Dtype::fp16, Dtype::fp32}) {
      expect_the_copies_of_the_simulation(with_differences(codec, compute, compute_dtype), 4);
    }
    expect_the_copies_of_the_simulation(with_differences(codec, fp32, Dtype::bf16), 4);
  }
}

TEST(WeightDifferences, WholeWeightsGoAtTheirInterval) {
  zero::Options options = with_differences("int4:32", zero::CopyDtype::fp32, Dtype::bf16);
  options.weight_differences.refresh_interval = 3;
  options.pipeline_depth = 3;
  options.accumulation_steps = 2;
  for (const char* whole : {"int8:64", "none"}) {
    options.weight_codec = codec::parse_codec(whole);
    expect_the_copies_of_the_simulation(options, 8);
  }
}

TEST(WeightDifferences, WithWholeWeightsInEveryStepTrainAsHpzWithoutCompression) {
  zero::Options options = with_differences("int4:128", zero::CopyDtype::compute, Dtype::bf16);
  options.weight_differences.refresh_interval = 1;
  options.weight_codec = {};
  const Outcome outcome = make_case(options).train(4, 2);
  options.weight_differences = {};
  options.quantized_weights = false;
  EXPECT_EQ(outcome.hash, make_case(options).train(4, 2).hash);
  EXPECT_EQ(outcome.backward_inter, 0U);
  EXPECT_GT(outcome.secondary_gathers, 0U);
}

TEST(WeightDifferences, SendAQuarterOfTheBytesOfSixteenBitsBetweenNodes) {
  zero::Options options = with_differences("int4:128", zero::CopyDtype::compute, Dtype::bf16);
  EngineCase engine_case = make_case(options);
  (void)engine_case.step(0);
  const auto sent = [&](const std::string& purpose) {
    std::uint64_t bytes = 0;
    std::uint64_t calls = 0;
    for (const trace::CollectiveRow& row : engine_case.recorder().collectives) {
      if (row.purpose != purpose) continue;
      bytes += row.wire_bytes_inter;
      calls += row.calls;
      EXPECT_EQ(row.wire_bytes_intra, 0U);
    }
    return std::pair(bytes, calls);
  };
  const std::size_t units = engine_case.engine().plan().input.units.size();
  EXPECT_EQ(sent("weights_copy").second, units);
  EXPECT_EQ(sent("weights_difference").second, 0U);
  (void)engine_case.step(1);
  EXPECT_EQ(sent("weights_copy").second, units);
  EXPECT_EQ(sent("weights_difference").second, units);
  std::uint64_t expected = 0;
  const auto others = static_cast<std::uint64_t>(world().size() / node_size() - 1);
  for (const zero::UnitPartition& unit : engine_case.engine().plan().input.units) {
    const std::size_t blocks = (unit.shard + 127) / 128;
    expected += others * ((blocks * 64 + 15) / 16 * 16 + (blocks * 2 + 15) / 16 * 16);
  }
  EXPECT_EQ(sent("weights_difference").first, expected);
}

TEST(WeightDifferences, OfRandomRoundingAreTheSameInEveryRunAndOnEveryNode) {
  const auto run = [](std::uint64_t seed) {
    zero::Options options = with_differences("int4:64+sr", zero::CopyDtype::compute, Dtype::bf16);
    options.seed = seed;
    EngineCase engine_case = make_case(options);
    const std::string hash = engine_case.train(3).hash;
    const std::vector<std::string> copies = engine_case.engine().copy_hashes();
    for (const std::string& copy : copies) EXPECT_EQ(copy, copies.front());
    return std::pair(hash, copies);
  };
  EXPECT_EQ(run(1), run(1));
}

}  // namespace
}  // namespace zeropp::test
