// ctest: name=nn_math labels=sanitize
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "kernels/nn/math.hpp"

namespace zeropp::nn {
namespace {

TEST(FastExp, RelativeErrorIsBelow2e7) {
  double worst = 0.0;
  for (int i = -8700; i <= 8800; ++i) {
    for (int j = 0; j < 16; ++j) {
      const float x = static_cast<float>(i) * 0.01F + static_cast<float>(j) * 0.000617F;
      const double exact = std::exp(static_cast<double>(x));
      worst = std::max(worst, std::abs(static_cast<double>(fast_exp(x)) - exact) / exact);
    }
  }
  EXPECT_LT(worst, 2e-7);
  EXPECT_EQ(fast_exp(0.0F), 1.0F);
}

TEST(FastExp, EndsOfTheRange) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  EXPECT_EQ(fast_exp(-kInf), fast_exp(-87.3F));
  EXPECT_EQ(fast_exp(-1e9F), fast_exp(-87.3F));
  EXPECT_EQ(fast_exp(kInf), fast_exp(88.3F));
  EXPECT_TRUE(std::isfinite(fast_exp(kInf)));
  EXPECT_GE(fast_exp(-kInf), std::numeric_limits<float>::min());
  EXPECT_TRUE(std::isnan(fast_exp(std::numeric_limits<float>::quiet_NaN())));
}

double gelu(double x) {
  return 0.5 * x * (1.0 + std::tanh(std::sqrt(2.0 / M_PI) * (x + 0.044715 * x * x * x)));
}

TEST(Gelu, ValueAndDerivative) {
  for (int i = -12000; i <= 12000; ++i) {
    const float x = static_cast<float>(i) * 0.001F;
    const double exact = static_cast<double>(x);
    EXPECT_NEAR(static_cast<double>(Gelu::value(x)), gelu(exact), 3e-7 * (1.0 + std::abs(exact)));
    const double h = 1e-5;
    const double slope = (gelu(exact + h) - gelu(exact - h)) / (2.0 * h);
    EXPECT_NEAR(static_cast<double>(Gelu::derivative(x)), slope, 1e-6);
  }
}

TEST(Gelu, FarOut) {
  EXPECT_EQ(Gelu::value(100.0F), 100.0F);
  EXPECT_EQ(Gelu::derivative(100.0F), 1.0F);
  EXPECT_NEAR(Gelu::value(-100.0F), 0.0F, 1e-30F);
  EXPECT_NEAR(Gelu::derivative(-100.0F), 0.0F, 1e-30F);
  EXPECT_TRUE(std::isnan(Gelu::value(std::numeric_limits<float>::quiet_NaN())));
}

}  // namespace
}  // namespace zeropp::nn
