// ctest: name=contract5_sgd_closed_form np=1,4 cuda=mpi,nccl timeout=120 labels=sanitize
// Plain SGD on the quadratic, through the whole engine: the distance of every parameter to the
// minimum shrinks by (1 - h clip a_p / P) per step, where h is the learning rate and clip the
// coefficient of clipping. If all steps have the same batches the minimum stays: after k steps
// without clipping the distance has the factor (1 - h a_p / P)^k. SGD keeps no state.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/quadratic_case.hpp"

namespace zeropp::test {
namespace {

constexpr double kParameters = 1317;
constexpr std::uint64_t kSteps = 12;

class Sgd : public testing::TestWithParam<std::tuple<int, double>> {
 protected:
  Sgd() {
    std::tie(options_.stage, options_.gradient_clipping) = GetParam();
    options_.accumulation_steps = 2;
    options_.reduce_bucket_size = 2000;
  }

  zero::Options options_;
  optim::Options sgd_{.type = "SGD", .learning_rate = 0.2 * kParameters};
};

double minimum(std::size_t p, double tilt) {
  return model::Quadratic::target(p) -
         tilt * model::Quadratic::slope(p) / model::Quadratic::curvature(p);
}

TEST_P(Sgd, ShrinksTheDistanceByTheClosedForm) {
  QuadraticCase made(kSmallUnits, options_, 0, kLength, kSequences, sgd_);
  const double tilt = made.mean_tilt(0);
  const std::vector<double> first = made.parameters();
  std::vector<double> factor(first.size(), 1.0);
  for (std::uint64_t step = 0; step < kSteps; ++step) {
    const zero::StepResult result = made.engine_case.step(0);
    double squares = 0;
    for (std::size_t p = 0; p < first.size(); ++p) {
      const double distance = factor[p] * (first[p] - minimum(p, tilt));
      squares += std::pow(model::Quadratic::curvature(p) * distance / kParameters, 2);
    }
    const double norm = std::sqrt(squares);
    const double limit = options_.gradient_clipping;
    const double clip = norm > limit ? limit / norm : 1.0;
    for (std::size_t p = 0; p < first.size(); ++p) {
      factor[p] *= 1.0 - sgd_.learning_rate * clip * model::Quadratic::curvature(p) / kParameters;
    }
    const std::vector<double> now = made.parameters();
    if (world().control().rank() == 0) {
      EXPECT_NEAR(result.grad_norm / norm, 1.0, 1e-5) << "step " << step;
      EXPECT_EQ(clip < 1, limit < 1) << "the case is about clipping";
    }
    for (std::size_t p = 0; p < now.size(); ++p) {
      const double start = first[p] - minimum(p, tilt);
      ASSERT_NEAR(now[p] - minimum(p, tilt), factor[p] * start, 1e-6 * (1 + std::abs(start)))
          << "parameter " << p << " after step " << step;
    }
  }
}

/// Every step has other batches, and so another minimum.
TEST_P(Sgd, StepsTowardsTheMinimumOfTheStepsBatches) {
  QuadraticCase made(kSmallUnits, options_, 0, kLength, kSequences, sgd_);
  std::vector<double> before = made.parameters();
  for (std::uint64_t step = 0; step < kSteps; ++step) {
    const double tilt = made.mean_tilt(step);
    const zero::StepResult result = made.engine_case.step(step);
    const double limit = options_.gradient_clipping;
    const double clip = result.grad_norm > limit ? limit / result.grad_norm : 1.0;
    const std::vector<double> now = made.parameters();
    for (std::size_t p = 0; p < now.size(); ++p) {
      const double shrink =
          1.0 - sgd_.learning_rate * clip * model::Quadratic::curvature(p) / kParameters;
      const double at = minimum(p, tilt);
      ASSERT_NEAR(now[p], at + shrink * (before[p] - at), 1e-6 * (1 + std::abs(before[p])))
          << "parameter " << p << " after step " << step;
    }
    before = now;
  }
}

TEST_P(Sgd, KeepsNoState) {
  QuadraticCase made(kSmallUnits, options_, 0, kLength, kSequences, sgd_);
  for (const zero::MemoryReport& part : made.engine_case.engine().memory()) {
    if (part.name != "moments") continue;
    EXPECT_EQ(part.predicted, 0U);
    EXPECT_EQ(part.actual, 0U);
    return;
  }
  FAIL() << "the memory report has no row for the optimizer's state";
}

INSTANTIATE_TEST_SUITE_P(StagesAndClips, Sgd,
                         testing::Combine(testing::Values(0, 1, 2, 3), testing::Values(1e-3, 1e9)));

}  // namespace
}  // namespace zeropp::test
