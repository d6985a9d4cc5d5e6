// ctest: name=contract5_engine_trajectory np=1,4 cuda=mpi,nccl timeout=120 labels=sanitize
// Steps of the whole engine against the closed form of the quadratic in double precision: mean
// gradient over ranks and micro-steps, clipping by the global norm, AdamW with bias correction and
// weight decay. Stages are compared with each other elsewhere; here with what they all should be.
#include <gtest/gtest.h>

#include "tests/support/quadratic_case.hpp"

namespace zeropp::test {
namespace {

/// The training of the engine again, in fp64 and in one place.
class Oracle {
 public:
  Oracle(const QuadraticCase& of, const zero::Options& options, const optim::Options& adamw,
         std::vector<double> weights)
      : case_(of),
        options_(options),
        adamw_(adamw),
        weights_(std::move(weights)),
        m_(weights_.size()),
        v_(weights_.size()) {}

  /// Returns the norm before clipping.
  double step(std::uint64_t step) {
    const double tilt = case_.mean_tilt(step);
    std::vector<double> gradient(weights_.size());
    double sum = 0;
    for (std::size_t p = 0; p < weights_.size(); ++p) {
      gradient[p] = case_.model->gradient(p, weights_[p], tilt);
      sum += gradient[p] * gradient[p];
    }
    const double norm = std::sqrt(sum);
    const double clip = norm > options_.gradient_clipping ? options_.gradient_clipping / norm : 1.0;
    const auto t = static_cast<double>(step + 1);
    for (std::size_t p = 0; p < weights_.size(); ++p) {
      const double g = gradient[p] * clip;
      m_[p] = adamw_.beta1 * m_[p] + (1 - adamw_.beta1) * g;
      v_[p] = adamw_.beta2 * v_[p] + (1 - adamw_.beta2) * g * g;
      const double m_hat = m_[p] / (1 - std::pow(adamw_.beta1, t));
      const double v_hat = v_[p] / (1 - std::pow(adamw_.beta2, t));
      weights_[p] -= adamw_.learning_rate * adamw_.weight_decay * weights_[p];
      weights_[p] -= adamw_.learning_rate * m_hat / (std::sqrt(v_hat) + adamw_.epsilon);
    }
    return norm;
  }

  [[nodiscard]] double weight(std::size_t p) const { return weights_[p]; }

 private:
  const QuadraticCase& case_;
  zero::Options options_;
  optim::Options adamw_;
  std::vector<double> weights_;
  std::vector<double> m_;
  std::vector<double> v_;
};

class Trajectory : public testing::TestWithParam<std::tuple<int, double>> {};

TEST_P(Trajectory, FollowsTheClosedForm) {
  zero::Options options;
  std::tie(options.stage, options.gradient_clipping) = GetParam();
  options.accumulation_steps = 2;
  options.reduce_bucket_size = 2000;
  // A large epsilon makes the update depend on the size of the gradient, and so on clipping.
  const optim::Options adamw{.learning_rate = 2e-3, .epsilon = 1e-3, .weight_decay = 0.1};
  QuadraticCase made(kSmallUnits, options, 0, kLength, kSequences, adamw);
  EngineCase& engine_case = made.engine_case;
  const bool root = world().control().rank() == 0;
  Oracle oracle(made, options, adamw, made.parameters());
  bool clipped = false;
  for (std::uint64_t step = 0; step < 12; ++step) {
    const zero::StepResult result = engine_case.step(step);
    const std::vector<double> now = made.parameters();
    if (!root) continue;
    const double norm = oracle.step(step);
    clipped = clipped || norm > options.gradient_clipping;
    EXPECT_NEAR(result.grad_norm / norm, 1.0, 1e-5) << "step " << step;
    for (std::size_t p = 0; p < now.size(); ++p) {
      ASSERT_NEAR(now[p], oracle.weight(p), 2e-6 * (1 + std::abs(now[p])))
          << "parameter " << p << " after step " << step;
    }
  }
  if (root) {
    EXPECT_EQ(clipped, options.gradient_clipping < 1) << "the case is about clipping";
  }
}

INSTANTIATE_TEST_SUITE_P(StagesAndClips, Trajectory,
                         testing::Combine(testing::Values(0, 1, 2, 3), testing::Values(1e-3, 1e9)));

}  // namespace
}  // namespace zeropp::test
