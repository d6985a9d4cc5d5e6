// ctest: name=contract3_offload np=1,2,4 cuda=mpi,nccl timeout=300 labels=sanitize
// With master weights and the optimizer in the memory of the host the parameters have the bits that
// they have without: at every stage, in every dtype, with hpZ on and off, with compressed weights
// and gradients, however much is offloaded and in whatever pieces. And the step steps.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "tests/support/engine_case.hpp"
#include "tests/support/optimizer_reference.hpp"

namespace zeropp::test {
namespace {

std::unique_ptr<zero::UnitModel> gpt(const model::Context& context) {
  return make_tiny_gpt(context);
}

zero::Options deterministic(int stage, Dtype compute) {
  zero::Options options;
  options.stage = stage;
  options.deterministic = true;
  options.compute = compute;
  options.gradient_clipping = 0.05;  // in effect in every step
  options.loss_scale.initial_power = 8;
  return options;
}

/// How it is offloaded: all in one piece and buffer, and in ways that leave pieces and ratios odd.
std::vector<zero::OffloadOptimizerOptions> offloads() {
  return {{.device = "cpu", .buffer_count = 1},
          {.device = "cpu", .pin_memory = true, .buffer_count = 3, .piece_size = 1000},
          {.device = "cpu", .buffer_count = 2, .ratio = 0.4, .piece_size = 777}};
}

void expect_same(const Outcome& outcome, const Outcome& expected) {
  EXPECT_EQ(outcome.hash, expected.hash);
  EXPECT_EQ(outcome.losses, expected.losses);
  EXPECT_THAT(outcome.norms, testing::Pointwise(testing::NanSensitiveDoubleEq(), expected.norms));
  EXPECT_EQ(outcome.sent, expected.sent);
}

std::string initial_hash(const zero::Options& options) {
  return EngineCase(options, 0, gpt).engine().parameters_hash();
}

class Offload : public testing::TestWithParam<std::tuple<int, Dtype>> {};
INSTANTIATE_TEST_SUITE_P(StagesAndDtypes, Offload,
                         testing::Combine(testing::Values(0, 1, 2, 3),
                                          testing::Values(Dtype::fp32, Dtype::bf16, Dtype::fp16)));

TEST_P(Offload, ChangesNoBit) {
  const auto [stage, compute] = GetParam();
  const int nodes = node_size_of_four();
  std::vector<std::size_t> groups{1};
  if (stage == 3 && nodes > 1) groups.push_back(static_cast<std::size_t>(nodes));
  std::set<std::string> hashes;
  for (const std::size_t group : groups) {
    zero::Options options = deterministic(stage, compute);
    options.hpz_partition_size = group;
    const Outcome plain = EngineCase(options, nodes, gpt).train(3, 2);
    hashes.insert(plain.hash);
    EXPECT_NE(plain.hash, initial_hash(options)) << "nothing is trained";
    EXPECT_GT(plain.norms.front(), options.gradient_clipping);
    for (const auto& offload : offloads()) {
      SCOPED_TRACE(testing::Message() << "hpZ " << group << ", pieces of " << offload.piece_size);
      options.offload_optimizer = offload;
      EngineCase made(options, nodes, gpt);
      expect_same(made.train(3, 2), plain);
      for (const zero::MemoryReport& row : made.engine().memory()) {
        EXPECT_EQ(row.actual, row.predicted) << row.name;
      }
    }
  }
  EXPECT_EQ(hashes.size(), 1U) << "hpZ changes parameters";
}

class OffloadOfParameters : public testing::TestWithParam<Dtype> {};
INSTANTIATE_TEST_SUITE_P(Dtypes, OffloadOfParameters,
                         testing::Values(Dtype::fp32, Dtype::bf16, Dtype::fp16));

TEST_P(OffloadOfParameters, ChangesNoBit) {
  const Dtype compute = GetParam();
  const int nodes = node_size_of_four();
  for (const std::size_t group : {1, nodes}) {
    for (const bool codecs : {false, true}) {
      zero::Options options = deterministic(3, compute);
      options.hpz_partition_size = group;
      options.quantized_weights = codecs;
      options.quantized_gradients = codecs;
      options.accumulation_steps = codecs ? 2 : 1;
      const Outcome plain = EngineCase(options, nodes, gpt).train(3, 2);
      for (const bool pinned : {false, true}) {
        SCOPED_TRACE(testing::Message() << "hpZ " << group << ", codecs " << codecs);
        options.offload_optimizer = offloads()[1];
        options.offload_param = {.device = "cpu", .pin_memory = pinned};
        EngineCase made(options, nodes, gpt);
        expect_same(made.train(3, 2), plain);
        for (const zero::MemoryReport& row : made.engine().memory()) {
          EXPECT_EQ(row.actual, row.predicted) << row.name;
          EXPECT_TRUE(row.name != "compute_shard" || row.actual == 0);
        }
      }
    }
  }
}

TEST(OffloadWithCodecs, ChangesNoBit) {
  for (const int stage : {1, 2, 3}) {
    zero::Options options = deterministic(stage, Dtype::bf16);
    options.quantized_weights = true;
    options.quantized_gradients = true;
    options.weight_codec = codec::parse_codec("int6:64+sr");
    options.gradient_codec_intra = {"int8", 64, {}};
    options.gradient_codec_inter = {"int4", 64, {}};
    options.error_feedback.hops = "both";
    options.accumulation_steps = 2;
    options.reduce_bucket_size = 6000;
    if (stage == 3 && node_size_of_four() > 1) {
      options.hpz_partition_size = static_cast<std::size_t>(node_size_of_four());
    }
    const Outcome plain = EngineCase(options, node_size_of_four(), gpt).train(3);
    for (const auto& offload : offloads()) {
      SCOPED_TRACE(testing::Message() << "stage " << stage << ", pieces of " << offload.piece_size);
      options.offload_optimizer = offload;
      expect_same(EngineCase(options, node_size_of_four(), gpt).train(3), plain);
    }
  }
}

/// Beside shard groups, units that persist, and units that are kept until their next use.
TEST(OffloadWithLimits, ChangesNoBit) {
  const int nodes = node_size_of_four();
  for (const std::size_t group : {zero::kAllRanks, std::size_t{2}}) {
    if (group != zero::kAllRanks && world().size() < 4) continue;
    zero::Options options = deterministic(3, Dtype::bf16);
    options.shard_group_size = group;
    options.accumulation_steps = 2;
    options.model_persistence_threshold = options.persistence_threshold = 8000;  // one block's
    options.max_reuse_distance = 1'000'000'000;
    const Outcome plain = EngineCase(options, nodes, gpt).train(3, 2);
    for (const bool parameters : {false, true}) {
      SCOPED_TRACE(testing::Message() << "groups of " << group << ", parameters " << parameters);
      options.offload_optimizer = offloads()[parameters ? 1 : 2];
      options.offload_param.device = parameters ? "cpu" : "none";
      EngineCase made(options, nodes, gpt);
      expect_same(made.train(3, 2), plain);
      for (const zero::MemoryReport& row : made.engine().memory()) {
        EXPECT_EQ(row.actual, row.predicted) << row.name;
      }
    }
  }
}

TEST(OffloadedOptimizers, ChangeNoBit) {
  for (const optim::Options& optimizer : optimizer_cases()) {
    SCOPED_TRACE(describe(optimizer));
    zero::Options options = deterministic(3, Dtype::bf16);
    const Outcome plain = EngineCase(options, 0, gpt, 16, 2, optimizer).train(3);
    options.offload_optimizer = offloads().back();
    expect_same(EngineCase(options, 0, gpt, 16, 2, optimizer).train(3), plain);
  }
}

TEST(OffloadInFp16, SkipsWhatOverflows) {
  zero::Options options = deterministic(2, Dtype::fp16);
  options.loss_scale.initial_power = 24;
  options.loss_scale.hysteresis = 1;
  const Outcome plain = EngineCase(options, 0, gpt).train(12);
  EXPECT_GT(plain.skipped, 0U);
  EXPECT_LT(plain.skipped, 12U) << "no step is taken";
  options.offload_optimizer = offloads().back();
  const Outcome offloaded = EngineCase(options, 0, gpt).train(12);
  expect_same(offloaded, plain);
  EXPECT_EQ(offloaded.skipped, plain.skipped);
}

/// Weights that a checkpoint or a file brings go through the same pieces.
TEST(OffloadedState, GoesOnFromAStateWithoutAndBack) {
  const auto go_on = [](const zero::Options& saves, const zero::Options& loads) {
    EngineCase first(saves, 0, gpt);
    for (std::uint64_t step = 0; step < 2; ++step) first.step(step);
    Buffer memory;
    std::map<std::string, std::vector<std::pair<checkpoint::Slice, std::vector<std::byte>>>> kept;
    for (const checkpoint::HostSlice& slice : first.engine().state(memory)) {
      kept[slice.slice.array].emplace_back(
          slice.slice, std::vector<std::byte>(slice.values.begin(), slice.values.end()));
    }
    EngineCase second(loads, 0, gpt);
    second.engine().restore(
        first.engine().steps(), [&](const checkpoint::Slice& wanted, std::span<std::byte> values) {
          std::size_t found = 0;
          for (const auto& [slice, bytes] : kept.at(wanted.array)) {
            const std::uint64_t begin = std::max(slice.offset, wanted.offset);
            const std::uint64_t end =
                std::min(slice.offset + slice.count, wanted.offset + wanted.count);
            if (begin >= end) continue;
            std::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>(4 * (begin - slice.offset)),
                        4 * (end - begin),
                        values.begin() + static_cast<std::ptrdiff_t>(4 * (begin - wanted.offset)));
            found += end - begin;
          }
          EXPECT_EQ(found, wanted.count) << wanted.array;
        });
    for (std::uint64_t step = 2; step < 4; ++step) second.step(step);
    return second.engine().parameters_hash();
  };
  for (const int stage : {0, 2, 3}) {
    if (stage == 0 && world().size() > 1) continue;  // the other ranks' slices are not here
    for (const Dtype compute : {Dtype::fp32, Dtype::bf16}) {
      const zero::Options plain = deterministic(stage, compute);
      zero::Options offloaded = plain;
      offloaded.offload_optimizer = offloads().back();
      const std::string expected = EngineCase(plain, 0, gpt).train(4).hash;
      if (stage == 3) {
        zero::Options parameters = plain;
        parameters.offload_optimizer = offloads().front();
        parameters.offload_param.device = "cpu";
        EXPECT_EQ(go_on(plain, parameters), expected);
        EXPECT_EQ(go_on(parameters, plain), expected);
      }
      EXPECT_EQ(go_on(plain, offloaded), expected) << "stage " << stage;
      EXPECT_EQ(go_on(offloaded, plain), expected) << "stage " << stage;
      EXPECT_EQ(go_on(offloaded, offloaded), expected) << "stage " << stage;
    }
  }
}

}  // namespace
}  // namespace zeropp::test
