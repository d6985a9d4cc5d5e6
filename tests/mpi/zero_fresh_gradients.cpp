// ctest: name=zero_fresh_gradients np=1,3 cuda=mpi,nccl timeout=120 labels=sanitize
// Memory of gradients that holds NaN when a step begins: nothing of it may be left, neither in
// tensors, which the first backward writes, nor between them, where the engine puts zeros. At every
// stage, over micro-steps, with a unit that two layers share, against a run without NaN.
#include <gtest/gtest.h>

#include <limits>
#include <map>

#include "tests/support/engine_case.hpp"
#include "tests/support/wrapped_model.hpp"

namespace zeropp::test {
namespace {

/// A GPT that remembers where the engine kept each unit's gradient, and looks at it after every
/// backward.
class Watched final : public WrappedModel {
 public:
  using WrappedModel::WrappedModel;

  void begin(const zero::Batch& batch, bool train, StreamHandle stream) override {
    stream_ = stream;
    WrappedModel::begin(batch, train, stream);
  }
  void backward(std::size_t layer, std::span<const ConstView> weights,
                std::span<const zero::Gradient> gradients, StreamHandle stream) override {
    WrappedModel::backward(layer, weights, gradients, stream);
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      check(layer, layers()[layer].units[i], gradients[i], stream);
    }
  }

  /// Fills all memory that has held gradients with NaN, on the stream of the layers: after the
  /// step's work and what the next step's layers wait for, nothing of it is in use.
  void poison() const {
    for (const auto& [data, view] : seen_) {
      const std::vector<float> nan(view.count, std::numeric_limits<float>::quiet_NaN());
      device().memory_ops->copy(ConstView::of(nan.data(), nan.size()), view, stream_);
      device().runtime->synchronize(stream_.native);
    }
  }

  [[nodiscard]] std::size_t fresh() const { return fresh_; }

 private:
  void check(std::size_t layer, std::size_t unit, const zero::Gradient& gradient,
             StreamHandle stream) {
    fresh_ += gradient.fresh ? 1 : 0;
    seen_.insert_or_assign(gradient.values.data, gradient.values);
    std::vector<float> values(gradient.values.count);
    device().memory_ops->copy(gradient.values, View::of(values.data(), values.size()), stream);
    device().runtime->synchronize(stream.native);
    std::vector<bool> covered(values.size(), false);
    for (const zero::Tensor& tensor : units()[unit].tensors) {
      std::fill_n(covered.begin() + static_cast<std::ptrdiff_t>(tensor.offset), tensor.count(),
                  true);
    }
    for (std::size_t i = 0; i < values.size(); ++i) {
      ASSERT_TRUE(covered[i] ? std::isfinite(values[i]) : values[i] == 0.0F)
          << "after backward of " << layers()[layer].name << " the gradient of "
          << units()[unit].name << (gradient.fresh ? ", fresh," : "") << " at [" << i << "] of "
          << values.size() << " is " << values[i]
          << (covered[i] ? ", not finite" : " where no tensor is, wanted 0");
    }
  }

  std::map<void*, View> seen_;  ///< by address, as last given
  std::size_t fresh_ = 0;
  StreamHandle stream_;  ///< of the last batch
};

struct Watch {
  explicit Watch(const zero::Options& options, bool tied)
      : engine_case(options, 0, [&](const model::Context& context) {
          auto made = std::make_unique<Watched>(make_tiny("gpt", context, tied));
          model = made.get();
          return made;
        }) {}

  Watched* model = nullptr;  ///< the engine's case owns it
  EngineCase engine_case;
};

class FreshGradients : public testing::TestWithParam<std::tuple<int, bool, Dtype>> {};

TEST_P(FreshGradients, KeepNothingOfWhatWasThere) {
  zero::Options options;
  bool tied = false;
  std::tie(options.stage, tied, options.compute) = GetParam();
  options.deterministic = true;
  options.accumulation_steps = 2;
  options.reduce_bucket_size = 6000;
  Watch clean(options, tied);
  Watch poisoned(options, tied);
  constexpr std::uint64_t kSteps = 3;
  for (std::uint64_t step = 0; step < kSteps; ++step) {
    const zero::StepResult expected = clean.engine_case.step(step);
    const zero::StepResult result = poisoned.engine_case.step(step);
    EXPECT_FALSE(result.skipped) << "step " << step;
    EXPECT_EQ(result.loss, expected.loss) << "step " << step;
    EXPECT_EQ(result.grad_norm, expected.grad_norm) << "step " << step;
    (void)poisoned.engine_case.engine().update_times();  // waits for refreshes, which may use it
    poisoned.model->poison();
  }
  EXPECT_EQ(poisoned.engine_case.engine().parameters_hash(),
            clean.engine_case.engine().parameters_hash());
  // Gradients are fresh once per step if they stay whole over the micro-steps, else once per
  // micro-step.
  const std::size_t times = kSteps * (options.stage < 2 ? 1 : options.accumulation_steps);
  EXPECT_EQ(poisoned.model->fresh(), times * poisoned.model->units().size());
}

INSTANTIATE_TEST_SUITE_P(Stages, FreshGradients,
                         testing::Combine(testing::Values(0, 1, 2, 3), testing::Bool(),
                                          testing::Values(Dtype::fp32, Dtype::bf16)));

}  // namespace
}  // namespace zeropp::test
