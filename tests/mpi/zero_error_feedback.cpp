// ctest: name=zero_error_feedback np=1,4 cuda=mpi,nccl timeout=180 labels=sanitize
// The engine's error feedback: a skipped step leaves no trace of it, errors chain from micro-step
// to micro-step, are forgotten every so many steps that were taken and in all buckets at once, take
// the memory that was predicted; and the bits do not depend on the run or the pipeline depth. That
// they follow the scale of the loss: zero_loss_scale_engine.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <map>
#include <set>

#include "tests/support/engine_case.hpp"
#include "tests/support/on_device.hpp"
#include "tests/support/planted_model.hpp"

namespace zeropp::test {
namespace {

struct FeedbackCase {
  explicit FeedbackCase(const zero::Options& options, int node_size = node_size_of_four())
      : engine_case(
            options, node_size,
            [&](const model::Context& context) {
              // The head is untied: every unit's gradient is one layer's.
              auto made = std::make_unique<PlantedModel>(make_tiny("gpt", context, false), Plants{},
                                                         options.accumulation_steps);
              model = made.get();
              return made;
            },
            16, 2) {}

  [[nodiscard]] zero::Engine& engine() { return engine_case.engine(); }
  [[nodiscard]] KeptErrors errors() { return engine_case.errors(); }

  PlantedModel* model = nullptr;  ///< the engine's case owns it
  EngineCase engine_case;
};

using zero::FeedbackHops;
using zero::FeedbackStorage;

zero::Options options_with(double beta, FeedbackStorage dtype,
                           FeedbackHops hops = FeedbackHops::both) {
  zero::Options options;
  options.quantized_gradients = true;
  options.deterministic = true;  // engines are compared bit for bit
  options.reduce_scatter_algorithm = "2-hop";
  options.reduce_bucket_size = 9'000;  // several buckets, and units in several of them
  options.accumulation_steps = 2;
  options.error_feedback.hops = hops;
  options.error_feedback.beta = beta;
  options.error_feedback.dtype = dtype;
  return options;
}

bool all_zero(const std::vector<std::byte>& bytes) {
  return std::ranges::all_of(bytes, [](std::byte byte) { return byte == std::byte{0}; });
}

TEST(EngineErrorFeedback, SkippedStepLeavesNoTrace) {
  for (const FeedbackStorage dtype : {FeedbackStorage::fp32, FeedbackStorage::int8}) {
    for (const Dtype compute : {Dtype::fp32, Dtype::bf16}) {
      SCOPED_TRACE(testing::Message() << enum_name(dtype) << " " << name_of(compute));
      zero::Options options = options_with(0.8, dtype);
      options.compute = compute;
      options.error_feedback.reset_period = 3;  // of steps that were taken
      FeedbackCase planted(options);
      planted.model->plants[2] = {.value = std::numeric_limits<float>::quiet_NaN(),
                                  .rank = world().size() - 1};
      FeedbackCase clean(options);
      KeptErrors before;
      for (const std::uint64_t step : {0, 1, 2, 3, 4}) {
        const auto result = planted.engine_case.step(step);
        EXPECT_EQ(result.skipped, step == 2) << "step " << step;
        if (step == 2) {
          EXPECT_EQ(planted.errors(), before);
        } else {
          clean.engine_case.step(step);
        }
        before = planted.errors();
        EXPECT_EQ(before, clean.errors()) << "step " << step;
      }
      EXPECT_EQ(planted.engine().parameters_hash(), clean.engine().parameters_hash());
    }
  }
}

TEST(EngineErrorFeedback, IsForgottenEverySoManySteps) {
  for (const FeedbackStorage dtype : {FeedbackStorage::fp32, FeedbackStorage::int8}) {
    zero::Options options = options_with(0, dtype);
    options.error_feedback.reset_period = 3;
    FeedbackCase made(options);
    for (std::uint64_t step = 1; step <= 7; ++step) {
      made.engine_case.step(step);
      const auto errors = made.errors();
      EXPECT_GT(errors.size(), 3U) << "the case is about several buckets";
      for (const auto& [name, bytes] : errors) {
        EXPECT_EQ(all_zero(bytes), step % 3 == 0) << name << " after step " << step;
      }
    }
  }
}

TEST(EngineErrorFeedback, HasTheSameBitsInEveryRunAndAtEveryDepth) {
  std::set<std::string> hashes;
  std::size_t settings = 0;
  for (const auto& [beta, dtype] : {std::pair{0.0, FeedbackStorage::fp32},
                                    {0.8, FeedbackStorage::fp32},
                                    {0.8, FeedbackStorage::int8}}) {
    std::string hash;
    for (const std::size_t depth : {1U, 1U, 3U}) {
      zero::Options options = options_with(beta, dtype);
      options.reduce_bucket_size = 200'000;  // parts of several chunks
      options.gradient_codec_intra.block = options.gradient_codec_inter.block = 32;
      options.pipeline_depth = depth;
      FeedbackCase made(options);
      for (std::uint64_t step = 0; step < 3; ++step) made.engine_case.step(step);
      const std::string found = made.engine().parameters_hash();
      if (hash.empty()) hash = found;
      EXPECT_EQ(found, hash) << "depth " << depth;
    }
    hashes.insert(hash);
    ++settings;
  }
  FeedbackCase off([] {
    zero::Options options = options_with(0, FeedbackStorage::fp32, FeedbackHops::none);
    options.reduce_bucket_size = 200'000;
    options.gradient_codec_intra.block = options.gradient_codec_inter.block = 32;
    return options;
  }());
  EXPECT_TRUE(off.engine().error_feedback().empty());
  for (std::uint64_t step = 0; step < 3; ++step) off.engine_case.step(step);
  hashes.insert(off.engine().parameters_hash());
  EXPECT_EQ(hashes.size(), settings + 1) << "every setting changes what is trained";
}

double norm_of_constant_gradients(const zero::Options& options) {
  return FeedbackCase(options).engine_case.norm_of_one_batch();
}

TEST(EngineErrorFeedback, ChainsFromMicroStepToMicroStep) {
  zero::Options options = options_with(0, FeedbackStorage::fp32);
  options.accumulation_steps = 16;
  const double fed_back = norm_of_constant_gradients(options);
  options.error_feedback.hops = FeedbackHops::none;
  const double biased = norm_of_constant_gradients(options);
  options.quantized_gradients = false;
  options.reduce_scatter_algorithm = "ordered";
  const double exact = norm_of_constant_gradients(options);
  EXPECT_GT(std::abs(biased / exact - 1), 1e-3) << "the case is about a codec that errs";
  EXPECT_LT(std::abs(fed_back - exact), std::abs(biased - exact) / 8);
}

TEST(EngineErrorFeedback, TakesThePredictedMemory) {
  for (int node_size = 1; node_size <= world().size(); ++node_size) {
    if (world().size() % node_size != 0) continue;
    const bool across = node_size < world().size();
    const bool inside = !across || node_size > 1;
    for (const FeedbackStorage dtype : {FeedbackStorage::fp32, FeedbackStorage::int8}) {
      for (const FeedbackHops hops : {FeedbackHops::both, FeedbackHops::none}) {
        FeedbackCase made(options_with(0, dtype, hops), node_size);
        std::size_t padded = 0;
        for (const auto& unit : made.engine_case.recorder().units) padded += unit.padded;
        std::map<std::string, std::size_t> found;
        for (const zero::MemoryReport& row : made.engine().memory()) {
          if (!row.name.starts_with("error_feedback")) continue;
          EXPECT_EQ(row.actual, row.predicted) << row.name;
          found[row.name] = row.actual;
        }
        const bool on = hops == FeedbackHops::both;
        EXPECT_EQ(found.contains("error_feedback_intra"), on && inside);
        EXPECT_EQ(found.contains("error_feedback_inter"), on && across);
        const auto local = static_cast<std::size_t>(node_size);
        for (const auto& [name, bytes] : found) {
          // Errors are held in two copies: P elements in the first hop, P / G in the second.
          const std::size_t elements =
              2 * (name == "error_feedback_inter" ? padded / local : padded);
          if (dtype == FeedbackStorage::fp32) {
            EXPECT_EQ(bytes, 4 * elements) << name;
          } else {
            EXPECT_GT(bytes, elements) << name;
            EXPECT_LT(bytes, 2 * elements) << name;
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace zeropp::test
