// ctest: name=quantization_error timeout=30 labels=sanitize
// The measures of quantization errors: of equals exactly 0, 1, 0, 1, whatever their size, and of
// others what vectors of two elements give by hand. Kinds of units by their names.
#include "lib/zero/quantization/quantization_error.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "lib/zero/plan/unit_model.hpp"

namespace zeropp::zero {
namespace {

TEST(QuantizationError, OfEqualsIsNothing) {
  std::mt19937 engine(5);
  std::normal_distribution<double> normal;
  for (const double scale : {1e-30, 1e-3, 1.0, 1e30}) {
    for (int repeat = 0; repeat < 100; ++repeat) {
      ErrorSums sums;
      for (int i = 0; i < 50; ++i) {
        const double value = static_cast<float>(scale * normal(engine));
        sums.add(value, value);
      }
      const ErrorMeasures found = measures_of(sums);
      EXPECT_EQ(found.relative_l2, 0);
      EXPECT_EQ(found.cosine, 1);
      EXPECT_EQ(found.largest, 0);
      EXPECT_EQ(found.norm_ratio, 1);
    }
  }
  const ErrorMeasures zeros = measures_of({});
  EXPECT_EQ(zeros.relative_l2, 0);
  EXPECT_EQ(zeros.cosine, 1);
  EXPECT_EQ(zeros.largest, 0);
  EXPECT_EQ(zeros.norm_ratio, 1);
}

TEST(QuantizationError, IsWhatVectorsGiveByHand) {
  ErrorSums sums;
  sums.add(3, 0);  // (3, -4) becomes (0, -8)
  sums.add(-4, -8);
  const ErrorMeasures found = measures_of(sums);
  EXPECT_DOUBLE_EQ(found.relative_l2, 1);     // (-3, -4) over (3, -4)
  EXPECT_DOUBLE_EQ(found.cosine, 32.0 / 40);  // 32 / (5 * 8)
  EXPECT_DOUBLE_EQ(found.largest, 1);         // 4 / 4
  EXPECT_DOUBLE_EQ(found.norm_ratio, 8.0 / 5);
}

TEST(QuantizationError, OfWhatShouldBeZeroHasNoBound) {
  ErrorSums sums;
  sums.add(0, 2);
  const ErrorMeasures found = measures_of(sums);
  EXPECT_EQ(found.relative_l2, std::numeric_limits<double>::infinity());
  EXPECT_EQ(found.cosine, 0);
  EXPECT_EQ(found.largest, std::numeric_limits<double>::infinity());
  EXPECT_EQ(found.norm_ratio, std::numeric_limits<double>::infinity());
}

TEST(QuantizationError, UnitsOfOneKindShareTheirName) {
  EXPECT_EQ(unit_kind("embedding"), "embedding");
  EXPECT_EQ(unit_kind("h.0"), "block");
  EXPECT_EQ(unit_kind("h.17"), "block");
  EXPECT_EQ(unit_kind("head"), "head");
  EXPECT_EQ(unit_kind("q.3"), "q");
}

}  // namespace
}  // namespace zeropp::zero
