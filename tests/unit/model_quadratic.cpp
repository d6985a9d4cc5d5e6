// ctest: name=model_quadratic labels=sanitize
#include "lib/model/quadratic.hpp"
#include "tests/support/local_model.hpp"
#include "tests/support/nn_arrays.hpp"

namespace zeropp::model {
namespace {

constexpr float kScale = 2.0F;  ///< of the loss
const std::vector<std::size_t> kSizes = {1, 7, 64, 257};

TEST(Quadratic, LossAndGradientAreTheClosedForm) {
  for (const Dtype compute : {Dtype::fp32, Dtype::bf16, Dtype::fp16}) {
    trace::Timers timers;
    Quadratic model(kSizes, 17, timers);
    test::LocalModel local(model, compute);
    local.initialise(3);
    const std::vector<std::int32_t> targets = {0, 16, 4, 8};
    const double t = 7.0 / 17.0;
    EXPECT_DOUBLE_EQ(model.tilt(targets), t);
    const double loss = local.forward({1, 4, targets, targets, kScale}, true);
    local.backward();
    double expected = 0.0;
    for (std::size_t u = 0; u < kSizes.size(); ++u) {
      for (std::size_t i = 0; i < kSizes[u]; ++i) {
        const std::size_t p = model.first(u) + i;
        const float stored = local.masters[u][i];
        const double w = test::d(test::loaded(test::stored({stored}, compute), compute).front());
        const double distance = w - Quadratic::target(p);
        expected +=
            (0.5 * Quadratic::curvature(p) * distance * distance + t * Quadratic::slope(p) * w) /
            329.0;
        const double gradient = test::d(kScale) *
                                (Quadratic::curvature(p) * distance + t * Quadratic::slope(p)) /
                                329.0;
        EXPECT_NEAR(test::d(local.gradients[u][i]), gradient, 1e-9);
      }
    }
    EXPECT_NEAR(loss, expected, 1e-12);
  }
}

TEST(Quadratic, MeanOverBatchesIsTheGradientAtTheMeanTilt) {
  trace::Timers timers;
  Quadratic model(kSizes, 17, timers);
  test::LocalModel local(model);
  local.initialise(3);
  std::vector<std::int32_t> all;
  for (std::uint64_t rank = 0; rank < 4; ++rank) {
    const auto targets = test::tokens(6, 17, rank);
    all.insert(all.end(), targets.begin(), targets.end());
    local.forward({1, 6, targets, targets}, true);
    local.backward();
  }
  const double t = model.tilt(all);
  for (std::size_t u = 0; u < kSizes.size(); ++u) {
    for (std::size_t i = 0; i < kSizes[u]; ++i) {
      const double w = test::d(local.masters[u][i]);
      EXPECT_NEAR(test::d(local.gradients[u][i]) / 4.0, model.gradient(model.first(u) + i, w, t),
                  1e-8);
    }
  }
}

TEST(Quadratic, GradientDescentFollowsTheTrajectory) {
  trace::Timers timers;
  Quadratic model(kSizes, 17, timers);
  test::LocalModel local(model);
  local.initialise(3);
  const auto begin = local.masters;
  const std::vector<std::int32_t> targets = {3, 5};
  const double t = model.tilt(targets);
  constexpr int kSteps = 12;
  constexpr double kStepSize = 100.0;
  for (int step = 0; step < kSteps; ++step) {
    for (auto& unit : local.gradients) std::fill(unit.begin(), unit.end(), 0.0F);
    local.forward({1, 2, targets, targets}, true);
    local.backward();
    for (std::size_t u = 0; u < kSizes.size(); ++u) {
      for (std::size_t i = 0; i < kSizes[u]; ++i) {
        local.masters[u][i] -= static_cast<float>(kStepSize) * local.gradients[u][i];
      }
    }
  }
  for (std::size_t u = 0; u < kSizes.size(); ++u) {
    for (std::size_t i = 0; i < kSizes[u]; ++i) {
      const std::size_t p = model.first(u) + i;
      const double minimum =
          Quadratic::target(p) - t * Quadratic::slope(p) / Quadratic::curvature(p);
      const double factor = std::pow(1.0 - kStepSize * Quadratic::curvature(p) / 329.0, kSteps);
      EXPECT_NEAR(test::d(local.masters[u][i]), minimum + factor * (test::d(begin[u][i]) - minimum),
                  1e-5);
    }
  }
}

TEST(Quadratic, ConstantsAreInTheirRanges) {
  for (std::size_t p = 0; p < 1000; ++p) {
    EXPECT_GE(Quadratic::curvature(p), 0.5);
    EXPECT_LT(Quadratic::curvature(p), 1.5);
    EXPECT_LE(std::abs(Quadratic::target(p)), 1.0);
    EXPECT_LE(std::abs(Quadratic::slope(p)), 1.0);
  }
}

}  // namespace
}  // namespace zeropp::model
