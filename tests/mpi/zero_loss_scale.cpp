// ctest: name=zero_loss_scale_engine np=1,4 cuda=mpi,nccl timeout=240 labels=sanitize
// Training in fp16 with a scaled loss. A gradient beyond the range of fp16, on any rank, skips the
// step on all and changes nothing but the loss scale: the run is, bit for bit, the one that never
// saw the step. Gradients are divided by the scale that their backward ran with: norms, clipping
// and updates do not jump where it grows; what error feedback keeps follows it.
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "lib/collective/collective.hpp"
#include "tests/support/engine_case.hpp"
#include "tests/support/on_device.hpp"
#include "tests/support/planted_model.hpp"

namespace zeropp::test {
namespace {

/// Value on the last rank that is finite, and beyond the range of fp16.
Plant overflow() { return {.value = -1e6F, .rank = world().size() - 1}; }

std::unique_ptr<EngineCase> make_case(const zero::Options& options, const Plants& plants = {}) {
  const auto make = [&](const model::Context& context) {
    return std::make_unique<PlantedModel>(make_tiny_gpt(context), plants);
  };
  return std::make_unique<EngineCase>(options, world().size() == 4 ? 2 : 1, make);
}

zero::Options in_fp16(const zero::LossScaleOptions& scale) {
  zero::Options options;
  options.compute = Dtype::fp16;
  options.loss_scale = scale;
  return options;
}

zero::Options fed_back(const zero::LossScaleOptions& scale, zero::FeedbackStorage dtype) {
  zero::Options options = in_fp16(scale);
  options.quantized_gradients = true;
  options.gradient_codec_intra.block = options.gradient_codec_inter.block = 64;
  options.reduce_bucket_size = 20'000;
  options.error_feedback = {
      .hops = zero::FeedbackHops::both, .beta = 0.5, .reset_period = 0, .dtype = dtype};
  return options;
}

/// Five steps, the third of which overflows, beside a run that never saw it.
void check_skip(const zero::Options& options) {
  const auto planted = make_case(options, {{2, overflow()}});
  const auto clean = make_case(options);
  for (const std::uint64_t step : {0, 1, 2, 3, 4}) {
    const std::string before = planted->engine().parameters_hash();
    const auto result = planted->step(step);
    EXPECT_EQ(result.skipped, step == 2) << "step " << step;
    EXPECT_EQ(result.loss_scale, step <= 2 ? 1024 : 512) << "step " << step;
    EXPECT_EQ(planted->engine().parameters_hash() == before, step == 2) << "step " << step;
    if (step == 2) {
      clean->engine().set_loss_scale(planted->engine().loss_scale().state());
    } else {
      EXPECT_EQ(clean->step(step).grad_norm, result.grad_norm) << "step " << step;
    }
    EXPECT_EQ(planted->errors(), clean->errors()) << "step " << step;
  }
  EXPECT_EQ(planted->engine().parameters_hash(), clean->engine().parameters_hash());
  EXPECT_EQ(planted->recorder().counters["nonfinite_steps"], 1U);
}

const zero::LossScaleOptions kHalves{.initial_power = 10, .hysteresis = 1};

TEST(LossScaleEngine, AnOverflowChangesTheScaleAlone) {
  for (const auto* algorithm : collective::reduce_scatter_algorithms()) {
    for (const int stage : {0, 1, 2, 3}) {
      SCOPED_TRACE(testing::Message() << algorithm->name << ", stage " << stage);
      zero::Options options = in_fp16(kHalves);
      options.stage = stage;
      options.deterministic = algorithm->traits.deterministic;
      options.reduce_scatter_algorithm = algorithm->name;
      options.gradient_clipping = 0.1;
      check_skip(options);
    }
  }
}

TEST(LossScaleEngine, AnOverflowLeavesKeptErrorsButForTheirScale) {
  for (const auto dtype : {zero::FeedbackStorage::fp32, zero::FeedbackStorage::int8}) {
    SCOPED_TRACE(enum_name(dtype));
    check_skip(fed_back(kHalves, dtype));
  }
}

/// A sum over ranks that fp16 could not carry on its way is not cut off in silence.
TEST(LossScaleEngine, NoSumIsCutOff) {
  for (const auto* algorithm : collective::reduce_scatter_algorithms()) {
    zero::Options options = in_fp16({.fixed = 1});
    options.reduce_scatter_algorithm = algorithm->name;
    const Plants plants{{0, {.value = 40'000}}};
    const auto result = make_case(options, plants)->step(0);
    EXPECT_TRUE(result.skipped || result.grad_norm > 39'999)
        << algorithm->name << ": norm " << result.grad_norm;
  }
}

/// The scale doubles after every second step, and falls once. Norms, and the kept values in units
/// of the loss, equal the values with a constant scale.
TEST(LossScaleEngine, NothingJumpsWhereTheScaleChanges) {
  // Activations are fp16 on a GPU: their rounding depends on the scale where they are subnormal.
  const double tolerance = device().memory == MemoryKind::host ? 0.0 : 0.02;
  for (const auto dtype : {zero::FeedbackStorage::fp32, zero::FeedbackStorage::int8}) {
    zero::Options options = fed_back({.initial_power = 8, .window = 2, .hysteresis = 1}, dtype);
    options.gradient_clipping = 0.5;  // in effect in every step
    const auto dynamic = make_case(options, {{4, overflow()}});
    options.loss_scale = {.fixed = 512};
    const auto fixed = make_case(options);
    for (const std::uint64_t step : {0, 1, 2, 3, 4, 5, 6}) {
      const auto found = dynamic->step(step);
      const std::vector<double> scales{256, 256, 512, 512, 1024, 512, 512};
      EXPECT_EQ(found.loss_scale, scales[step]) << "step " << step;
      EXPECT_EQ(found.skipped, step == 4);
      if (found.skipped) continue;
      const double norm = fixed->step(step).grad_norm;
      EXPECT_NEAR(found.grad_norm / norm, 1, tolerance) << enum_name(dtype) << ", step " << step;
      EXPECT_GT(norm, options.gradient_clipping) << "step " << step;
    }
    fixed->engine().set_loss_scale(dynamic->engine().loss_scale().state());
    if (tolerance > 0) continue;
    EXPECT_EQ(dynamic->errors(), fixed->errors()) << enum_name(dtype);
    EXPECT_EQ(dynamic->engine().parameters_hash(), fixed->engine().parameters_hash())
        << enum_name(dtype);
  }
}

/// Gradients are gradients of the loss: norm, clipping and update are close to fp32 at any scale.
TEST(LossScaleEngine, TrainsAsFp32Does) {
  zero::Options options;
  options.gradient_clipping = 1.0;
  const Outcome exact = make_case(options)->train(20);
  const std::vector<zero::LossScaleOptions> scales{
      {.fixed = 1}, {.fixed = 1000}, {.initial_power = 8, .window = 4}};
  for (const zero::LossScaleOptions& options_of_scale : scales) {
    const double scale = options_of_scale.fixed;
    zero::Options half = in_fp16(options_of_scale);
    half.gradient_clipping = options.gradient_clipping;
    const Outcome outcome = make_case(half)->train(20);
    ASSERT_EQ(outcome.skipped, 0U) << scale;
    for (std::size_t step = 0; step < 20; ++step) {
      EXPECT_NEAR(outcome.losses[step], exact.losses[step], 5e-3) << scale << ", step " << step;
      EXPECT_NEAR(outcome.norms[step] / exact.norms[step], 1, 0.03) << scale << ", step " << step;
    }
  }
}

TEST(LossScaleEngine, AnOverflowAtTheMinimumExhaustsTheScaleOnEveryRank) {
  for (const std::size_t hysteresis : {1U, 2U}) {
    const zero::LossScaleOptions scale{.initial_power = 3, .hysteresis = hysteresis, .minimum = 8};
    const auto engine_case = make_case(in_fp16(scale), {{1, overflow()}});
    EXPECT_FALSE(engine_case->step(0).exhausted);
    const auto result = engine_case->step(1);
    EXPECT_TRUE(result.skipped);
    EXPECT_EQ(result.exhausted, hysteresis == 1);
    EXPECT_EQ(result.loss_scale, 8);
  }
}

}  // namespace
}  // namespace zeropp::test
