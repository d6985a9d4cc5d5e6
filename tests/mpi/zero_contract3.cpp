// ctest: name=contract3_hpz_and_stages_identical np=1,4 cuda=mpi,nccl timeout=240 labels=sanitize
// With `deterministic`, hpZ on and off give the same parameters, bit for bit, and so do stages 0 to
// 3 with the identity codec and one micro-step per step. When hpZ is on, its gathers happen and
// backward sends no weights across nodes.
#include <gtest/gtest.h>

#include "tests/support/engine_case.hpp"
#include "tests/support/optimizer_reference.hpp"

namespace zeropp::test {
namespace {

/// Quantized weights, quantized gradients, the compute dtype, the model.
class HpzOnAndOff : public testing::TestWithParam<std::tuple<bool, bool, Dtype, const char*>> {};

TEST_P(HpzOnAndOff, GiveTheSameParameters) {
  const auto [quantized_weights, quantized_gradients, compute, name] = GetParam();
  const auto make = [name = name](const model::Context& context) {
    return make_tiny(name, context);
  };
  for (const int node_size : node_sizes()) {
    if (node_size == 1) continue;
    zero::Options options;
    options.deterministic = true;
    options.quantized_weights = quantized_weights;
    options.quantized_gradients = quantized_gradients;
    options.compute = compute;
    options.accumulation_steps = 2;
    options.weight_codec.block = 64;
    const Outcome off = EngineCase(options, node_size, make).train(3, 2);
    EXPECT_EQ(off.secondary_gathers, 0U);
    options.hpz_partition_size = static_cast<std::size_t>(node_size);
    const Outcome on = EngineCase(options, node_size, make).train(3, 2);
    EXPECT_EQ(on.hash, off.hash) << "node size " << node_size;
    EXPECT_GT(on.secondary_gathers, 0U);
    EXPECT_EQ(on.backward_inter, 0U);
    if (node_size < world().size()) {
      EXPECT_GT(off.backward_inter, 0U) << "without hpZ backward crosses nodes";
      EXPECT_LT(on.sent.inter, off.sent.inter);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Features, HpzOnAndOff,
                         testing::Combine(testing::Bool(), testing::Bool(),
                                          testing::Values(Dtype::fp32, Dtype::bf16, Dtype::fp16),
                                          testing::Values("gpt")));
INSTANTIATE_TEST_SUITE_P(Llama, HpzOnAndOff,
                         testing::Combine(testing::Values(true), testing::Values(true),
                                          testing::Values(Dtype::bf16), testing::Values("llama")));

TEST(HpzOverSeveralNodes, GivesTheSameParameters) {
  if (world().size() < 4) GTEST_SKIP() << "needs two nodes in a group and two groups";
  zero::Options options;
  options.deterministic = true;
  const Outcome off = EngineCase(options, 1, make_tiny_gpt).train(2);
  options.hpz_partition_size = 2;  // two nodes of one rank
  const Outcome on = EngineCase(options, 1, make_tiny_gpt).train(2);
  EXPECT_EQ(on.hash, off.hash);
  EXPECT_GT(on.secondary_gathers, 0U);
}

class Stages : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Models, Stages, testing::Values("gpt", "llama"));

TEST_P(Stages, GiveTheSameParameters) {
  for (const Dtype compute : {Dtype::fp32, Dtype::bf16, Dtype::fp16}) {
    for (const bool tied : {false, true}) {
      std::string first;
      std::vector<double> norms;
      for (const int stage : {0, 1, 2, 3}) {
        zero::Options options;
        options.stage = stage;
        options.deterministic = true;
        options.compute = compute;
        options.gradient_clipping = 0.05;  // in effect in every step
        options.reduce_bucket_size = 6000;
        const auto make = [&](const model::Context& context) {
          return make_tiny(GetParam(), context, tied);
        };
        const Outcome outcome = EngineCase(options, 0, make).train(4);
        if (stage == 0) {
          first = outcome.hash;
          norms = outcome.norms;
        }
        EXPECT_EQ(outcome.hash, first) << "stage " << stage;
        EXPECT_EQ(outcome.norms, norms) << "stage " << stage;
        EXPECT_GT(outcome.norms.front(), options.gradient_clipping);
      }
    }
  }
}

/// Gradients that the wire takes in bf16 may be bf16 from the start: they are rounded once. A GPU's
/// library may add in another order where it writes another dtype.
TEST(NarrowGradients, GiveTheSameParameters) {
  for (const auto& [stage, tied, bucket] :
       {std::tuple{3, false, 500'000'000}, {3, true, 6000}, {2, false, 6000}}) {
    zero::Options options;
    options.stage = stage;
    options.deterministic = true;
    options.compute = Dtype::bf16;
    options.accumulation_steps = 2;
    options.reduce_bucket_size = static_cast<std::size_t>(bucket);
    const auto make = [tied = tied](const model::Context& context) {
      return make_tiny("gpt", context, tied);
    };
    const Outcome wide = EngineCase(options, 0, make).train(4);
    options.gradient_dtype = Dtype::bf16;
    const Outcome narrow = EngineCase(options, 0, make).train(4);
    if (device().backend == Backend::host) {
      EXPECT_EQ(narrow.hash, wide.hash) << "stage " << stage << " tied " << tied;
      EXPECT_EQ(narrow.norms, wide.norms);
    }
    for (std::size_t step = 0; step < wide.losses.size(); ++step) {
      EXPECT_NEAR(narrow.losses[step], wide.losses[step], 1e-2) << "step " << step;
      EXPECT_NEAR(narrow.norms[step] / wide.norms[step], 1, 1e-2) << "step " << step;
    }
    options.quantized_gradients = true;  // codes of rounded values are not all the same
    const Outcome quantized = EngineCase(options, 0, make).train(4);
    EXPECT_NEAR(quantized.losses.back(), wide.losses.back(), 5e-2);
  }
}

/// The collectives of all stages use the same codecs: with qgZ at stages 0 to 3, with qwZ too where
/// weights are gathered.
TEST(QuantizedStages, GiveTheSameParameters) {
  for (const int node_size : node_sizes()) {
    for (const bool weights : {false, true}) {
      std::string first;
      std::string plain;
      for (const int stage : {0, 1, 2, 3}) {
        if (weights && stage == 0) continue;
        zero::Options options;
        options.stage = stage;
        options.deterministic = true;
        options.compute = Dtype::bf16;
        options.quantized_gradients = true;
        options.gradient_codec_intra = {"int8", 64, {}};
        options.gradient_codec_inter = codec::parse_codec("int4:64+sr");
        options.quantized_weights = weights;
        options.weight_codec = codec::parse_codec("int6:64+sr");
        options.reduce_bucket_size = 6000;
        const Outcome outcome = EngineCase(options, node_size, make_tiny_gpt).train(4);
        if (first.empty()) first = outcome.hash;
        EXPECT_EQ(outcome.hash, first) << "stage " << stage << ", node size " << node_size;
        options.quantized_gradients = options.quantized_weights = false;
        if (plain.empty()) plain = EngineCase(options, node_size, make_tiny_gpt).train(4).hash;
        EXPECT_NE(outcome.hash, plain) << "nothing is compressed";
      }
    }
  }
}

TEST(Optimizers, GiveTheSameParametersAtEveryStage) {
  for (const optim::Options& optimizer : optimizer_cases()) {
    SCOPED_TRACE(describe(optimizer));
    std::string first;
    for (const int stage : {0, 1, 2, 3}) {
      zero::Options options;
      options.stage = stage;
      options.deterministic = true;
      options.compute = Dtype::bf16;
      options.gradient_clipping = 0.05;
      const Outcome outcome = EngineCase(options, 0, make_tiny_gpt, 16, 2, optimizer).train(3);
      if (stage == 0) first = outcome.hash;
      EXPECT_EQ(outcome.hash, first) << "stage " << stage;
    }
  }
}

TEST(BucketsAndPrefetch, DoNotChangeParameters) {
  std::string first;
  for (const std::size_t bucket : {std::size_t{1}, std::size_t{5000}, std::size_t{500'000'000}}) {
    for (const std::size_t prefetch :
         {std::size_t{0}, std::size_t{20'000}, std::size_t{50'000'000}}) {
      for (const bool overlap : {false, true}) {
        zero::Options options;
        options.deterministic = true;
        options.compute = Dtype::bf16;
        options.reduce_bucket_size = bucket;
        options.prefetch_bucket_size = prefetch;
        options.overlap_comm = overlap;
        options.accumulation_steps = 2;
        const Outcome outcome = EngineCase(options, 0, make_tiny_gpt).train(2);
        if (first.empty()) first = outcome.hash;
        EXPECT_EQ(outcome.hash, first) << bucket << " " << prefetch << " " << overlap;
      }
    }
  }
}

}  // namespace
}  // namespace zeropp::test
