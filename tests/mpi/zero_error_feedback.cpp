// ctest: name=zero_error_feedback np=1,2,4 cuda=mpi,nccl timeout=180 labels=sanitize
// The engine's error feedback: a skipped step leaves no trace of it, errors chain from micro-step
// to micro-step, are forgotten every so many steps that were taken and in all buckets at once,
// follow the scale of the loss, take the memory that was predicted; and the bits do not depend on
// the run or the pipeline depth.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <map>
#include <set>

#include "tests/support/engine_case.hpp"
#include "tests/support/on_device.hpp"
#include "tests/support/wrapped_model.hpp"

namespace zeropp::test {
namespace {

/// A model that another one is, but for its gradients: scaled, and not finite in one step. On the
/// host; on a GPU they come to it and go back.
class Altered final : public WrappedModel {
 public:
  Altered(std::unique_ptr<zero::UnitModel> model, std::size_t micro_steps)
      : WrappedModel(std::move(model)), micro_steps_(micro_steps) {}

  float scale = 1.0F;
  std::size_t bad_step = std::numeric_limits<std::size_t>::max();  ///< by training steps begun

  void begin(const zero::Batch& batch, bool train, StreamHandle stream) override {
    begun_ += train ? 1 : 0;
    WrappedModel::begin(batch, train, stream);
  }
  void backward(std::size_t layer, std::span<const ConstView> weights,
                std::span<const zero::Gradient> gradients, StreamHandle stream) override {
    WrappedModel::backward(layer, weights, gradients, stream);
    const bool bad = layer == 0 && begun_ - 1 == bad_step * micro_steps_ &&
                     world().control().rank() == world().size() - 1;
    for (const zero::Gradient& gradient : gradients) {
      // Every tensor's, once: where this layer writes first. A tied unit's later layers add to it.
      if (scale != 1.0F && gradient.fresh)
        alter(gradient.values, stream, [&](float& value) { value *= scale; });
    }
    if (bad) {
      const std::size_t at = units()[layers()[layer].units.front()].tensors.back().offset;
      alter(gradients.front().values.part(at, 1), stream,
            [](float& value) { value = std::numeric_limits<float>::quiet_NaN(); });
    }
  }

 private:
  template <class Change>
  static void alter(View values, StreamHandle on, const Change& change) {
    std::vector<float> host(values.count);
    const View copy = View::of(host.data(), host.size());
    device().memory_ops->copy(values, copy, on);
    device().runtime->synchronize(on.native);
    std::ranges::for_each(host, change);
    device().memory_ops->copy(copy, values, on);
    device().runtime->synchronize(on.native);
  }

  std::size_t micro_steps_;
  std::size_t begun_ = 0;
};

struct FeedbackCase {
  FeedbackCase(const zero::Options& options, int node_size, const optim::Options& optimizer)
      : engine_case(
            options, node_size,
            [&](const model::Context& context) {
              // Untied: every unit's gradient is one layer's.
              auto made = std::make_unique<Altered>(make_tiny_gpt(context, false),
                                                    options.accumulation_steps);
              model = made.get();
              return made;
            },
            16, 2, optimizer) {}
  explicit FeedbackCase(const zero::Options& options, int node_size = node_size_of_four())
      : FeedbackCase(options, node_size, {.learning_rate = 2e-3, .weight_decay = 0.1}) {}

  static int node_size_of_four() { return world().size() == 4 ? 2 : world().size(); }

  [[nodiscard]] zero::Engine& engine() { return engine_case.engine(); }
  /// The kept errors of all hops and buckets, by name.
  [[nodiscard]] std::map<std::string, std::vector<std::byte>> errors() {
    std::map<std::string, std::vector<std::byte>> all;
    for (const zero::NamedState& state : engine().error_feedback()) {
      std::vector<std::byte> bytes(state.bytes.size());
      stream().copy(bytes.data(), state.bytes.data(), bytes.size());
      stream().synchronize();
      EXPECT_TRUE(all.emplace(state.name, std::move(bytes)).second) << state.name << " twice";
    }
    return all;
  }

  Altered* model = nullptr;  ///< the engine's case owns it
  EngineCase engine_case;
};

zero::Options options_with(double beta, const char* dtype, const char* hops = "both") {
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
  for (const char* dtype : {"fp32", "int8"}) {
    for (const Dtype compute : {Dtype::fp32, Dtype::bf16}) {
      SCOPED_TRACE(testing::Message() << dtype << " " << name_of(compute));
      zero::Options options = options_with(0.8, dtype);
      options.compute = compute;
      options.error_feedback.reset_period = 3;  // of steps that were taken
      FeedbackCase planted(options);
      planted.model->bad_step = 2;
      FeedbackCase clean(options);
      std::map<std::string, std::vector<std::byte>> before;
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
  for (const char* dtype : {"fp32", "int8"}) {
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
  for (const auto& [beta, dtype] : {std::pair{0.0, "fp32"}, {0.8, "fp32"}, {0.8, "int8"}}) {
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
    zero::Options options = options_with(0, "fp32", "none");
    options.reduce_bucket_size = 200'000;
    options.gradient_codec_intra.block = options.gradient_codec_inter.block = 32;
    return options;
  }());
  EXPECT_TRUE(off.engine().error_feedback().empty());
  for (std::uint64_t step = 0; step < 3; ++step) off.engine_case.step(step);
  hashes.insert(off.engine().parameters_hash());
  EXPECT_EQ(hashes.size(), settings + 1) << "every setting changes what is trained";
}

TEST(EngineErrorFeedback, FollowsTheScaleOfTheLoss) {
  // Weights stay where they are, so that gradients are the same but for their scale.
  const optim::Options still{.learning_rate = 0, .weight_decay = 0};
  for (const char* dtype : {"fp32", "int8"}) {
    const zero::Options options = options_with(0.8, dtype);
    FeedbackCase plain(options, FeedbackCase::node_size_of_four(), still);
    FeedbackCase scaled(options, FeedbackCase::node_size_of_four(), still);
    for (std::uint64_t step = 0; step < 4; ++step) {
      if (step == 2) {
        scaled.model->scale = 2.0F;
        scaled.engine().rescale_errors(2.0);
      }
      const double norm = plain.engine_case.step(step).grad_norm;
      const double twice = scaled.engine_case.step(step).grad_norm;
      EXPECT_EQ(twice, step < 2 ? norm : 2 * norm) << dtype << ", step " << step;
    }
    EXPECT_NE(plain.errors(), scaled.errors());
    scaled.engine().rescale_errors(0.5);
    EXPECT_EQ(plain.errors(), scaled.errors()) << dtype;
  }
}

double norm_of_constant_gradients(const zero::Options& options) {
  return FeedbackCase(options).engine_case.norm_of_one_batch();
}

TEST(EngineErrorFeedback, ChainsFromMicroStepToMicroStep) {
  zero::Options options = options_with(0, "fp32");
  options.accumulation_steps = 16;
  const double fed_back = norm_of_constant_gradients(options);
  options.error_feedback.hops = "none";
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
    for (const char* dtype : {"fp32", "int8"}) {
      for (const char* hops : {"both", "none"}) {
        FeedbackCase made(options_with(0, dtype, hops), node_size);
        std::size_t padded = 0;
        for (const auto& unit : made.engine_case.recorder().units) padded += unit.padded;
        std::map<std::string, std::size_t> found;
        for (const zero::MemoryReport& row : made.engine().memory()) {
          if (!row.name.starts_with("error_feedback")) continue;
          EXPECT_EQ(row.actual, row.predicted) << row.name;
          found[row.name] = row.actual;
        }
        const bool on = std::string(hops) == "both";
        EXPECT_EQ(found.contains("error_feedback_intra"), on && inside);
        EXPECT_EQ(found.contains("error_feedback_inter"), on && across);
        const auto local = static_cast<std::size_t>(node_size);
        for (const auto& [name, bytes] : found) {
          // Two copies: P elements in the first hop, P / G in the second.
          const std::size_t elements =
              2 * (name == "error_feedback_inter" ? padded / local : padded);
          if (std::string(dtype) == "fp32") {
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
