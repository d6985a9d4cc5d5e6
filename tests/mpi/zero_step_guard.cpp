// ctest: name=zero_step_guard np=1,2,4,6 cuda=mpi,nccl timeout=300 labels=sanitize
// Verification of every step changes no bit, sends no counted byte, takes the memory that is
// planned, and finds nothing in healthy training: over stages, hpZ, codecs, error feedback, weight
// differences, shard groups, offload, skipped steps, evaluations and state that is read.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/engine_case.hpp"

namespace zeropp::test {
namespace {

EngineCase guarded_case(zero::Options options, std::size_t interval,
                        const optim::Options& optimizer = {.learning_rate = 2e-3,
                                                           .weight_decay = 0.1}) {
  options.verify_interval = interval;
  return {options, node_size_of_four(), make_tiny_gpt, kLength, kSequences, optimizer};
}

void expect_healthy(const zero::Options& options, const optim::Options& optimizer = {
                                                      .learning_rate = 2e-3, .weight_decay = 0.1}) {
  constexpr std::uint64_t kVerified = 5;
  EngineCase plain = guarded_case(options, 0, optimizer);
  EngineCase guarded = guarded_case(options, 1, optimizer);
  for (std::uint64_t step = 0; step < kVerified; ++step) {
    const zero::StepResult expected = plain.step(step);
    const zero::StepResult found = guarded.step(step);
    EXPECT_EQ(found.corruption, "");
    EXPECT_EQ(found.loss, expected.loss);
    EXPECT_EQ(found.grad_norm, expected.grad_norm);
    EXPECT_EQ(found.sent, expected.sent);
  }
  EXPECT_EQ(guarded.engine().parameters_hash(), plain.engine().parameters_hash());
  EXPECT_EQ(guarded.recorder().counters["verified_steps"], kVerified);
  EXPECT_EQ(guarded.recorder().counters.count("verification_alarms"), 0U);
  EXPECT_EQ(plain.recorder().counters.count("verified_steps"), 0U);
  bool listed = false;
  for (const zero::MemoryReport& row : guarded.engine().memory()) {
    EXPECT_EQ(row.actual, row.predicted) << row.name;
    listed = listed || row.name == "verification";
  }
  EXPECT_TRUE(listed);
}

zero::Options at_stage(int stage) {
  zero::Options options;
  options.deterministic = true;
  options.stage = stage;
  return options;
}

TEST(StepGuard, FindsNothingAtAnyStage) {
  for (const int stage : {0, 1, 2, 3}) {
    for (const Dtype compute : {Dtype::fp32, Dtype::bf16, Dtype::fp16}) {
      for (const std::size_t micro_steps : {1U, 2U}) {
        SCOPED_TRACE(testing::Message()
                     << "stage " << stage << " " << name_of(compute) << " " << micro_steps);
        zero::Options options = at_stage(stage);
        options.compute = compute;
        options.accumulation_steps = micro_steps;
        expect_healthy(options);
        options.quantized_gradients = true;
        options.reduce_bucket_size = 6000;
        expect_healthy(options);
      }
    }
  }
}

TEST(StepGuard, FindsNothingWithHpz) {
  for (const std::size_t group : {std::size_t(node_size_of_four()), std::size_t(world().size())}) {
    for (const auto place : {zero::HpzDevice::device, zero::HpzDevice::cpu}) {
      zero::Options options = at_stage(3);
      options.hpz_partition_size = group;
      if (group > 1) options.hpz_device = place;
      options.quantized_weights = true;
      options.accumulation_steps = 2;
      expect_healthy(options);
    }
  }
}

TEST(StepGuard, FindsNothingInStochasticReductionsThatFeedErrorsBack) {
  for (const char* codec : {"int4:128", "int8:64+sr", "fp8e4m3:32", "int4:32+had32"}) {
    for (const auto storage : {zero::FeedbackStorage::fp32, zero::FeedbackStorage::int8}) {
      for (const char* algorithm : {"1-hop", "2-hop"}) {
        SCOPED_TRACE(std::string(codec) + " " + algorithm);
        zero::Options options = at_stage(2);
        options.quantized_gradients = true;
        options.gradient_codec_intra = options.gradient_codec_inter = codec::parse_codec(codec);
        options.reduce_scatter_algorithm = algorithm;
        options.accumulation_steps = 2;
        options.error_feedback = {
            .hops = zero::FeedbackHops::both, .beta = 0.1, .reset_period = 3, .dtype = storage};
        if (std::string(algorithm) == "1-hop")
          options.error_feedback.hops = zero::FeedbackHops::intra;
        expect_healthy(options);
      }
    }
  }
}

TEST(StepGuard, FindsNothingInReductionsOfAnyOrder) {
  for (const char* algorithm : {"flat", "native", "ordered"}) {
    for (const Dtype compute : {Dtype::fp32, Dtype::bf16}) {
      SCOPED_TRACE(algorithm);
      zero::Options options = at_stage(3);
      options.deterministic = std::string(algorithm) != "native";
      options.compute = compute;
      options.reduce_scatter_algorithm = algorithm;
      expect_healthy(options);
    }
  }
}

TEST(StepGuard, FindsNothingWithWeightDifferences) {
  for (const int stage : {1, 2, 3}) {
    zero::Options options = at_stage(stage);
    options.quantized_weights = true;
    options.weight_differences = {.enabled = true, .refresh_interval = 3};
    if (stage == 3) options.hpz_partition_size = static_cast<std::size_t>(node_size_of_four());
    if (stage == 3 && world().size() != 4) continue;
    expect_healthy(options);
  }
}

TEST(StepGuard, FindsNothingWithOtherOptimizers) {
  zero::Options options = at_stage(3);
  options.compute = Dtype::bf16;
  for (const auto moments : {optim::Moments::fp32, optim::Moments::bf16, optim::Moments::int8}) {
    for (const char* type : {"AdamW", "Lion"}) {
      expect_healthy(options, {.type = type, .learning_rate = 2e-3, .moments = moments});
    }
  }
  options.update_in_backward = true;
  options.persistence_threshold = 7000;
  expect_healthy(options);
  options = at_stage(1);
  options.offload_optimizer = {
      .device = zero::OffloadDevice::cpu, .ratio = 0.4, .piece_size = 1024};
  expect_healthy(options);
}

TEST(StepGuard, FindsNothingInShardGroups) {
  if (world().size() != 4) GTEST_SKIP() << "groups of two ranks, on two nodes";
  zero::Options options = at_stage(3);
  options.shard_group_size = 2;
  options.quantized_gradients = true;
  options.gradient_codec_intra = options.gradient_codec_inter = codec::parse_codec("int8:64+sr");
  expect_healthy(options);
}

TEST(StepGuard, VerifiesTheFirstStepAndMultiples) {
  EngineCase guarded = guarded_case(at_stage(2), 3);
  std::vector<std::uint64_t> verified;
  for (std::uint64_t step = 0; step < 7; ++step) {
    EXPECT_EQ(guarded.step(step).corruption, "");
    verified.push_back(guarded.recorder().counters["verified_steps"]);
  }
  EXPECT_EQ(verified, (std::vector<std::uint64_t>{1, 1, 2, 2, 2, 3, 3}));
}

TEST(StepGuard, TakesStateThatIsReadForWhatItIs) {
  EngineCase guarded = guarded_case(at_stage(3), 1);
  EXPECT_EQ(guarded.train(3, 1).skipped, 0U);
  guarded.engine().set_weights([](const checkpoint::Slice&, std::span<std::byte> values) {
    std::ranges::fill(values, std::byte{0});
  });
  EXPECT_EQ(guarded.step(3).corruption, "");
  EXPECT_EQ(guarded.step(4).corruption, "");
}

}  // namespace
}  // namespace zeropp::test
