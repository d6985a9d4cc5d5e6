// ctest: name=plan_savings labels=sanitize
// The savings call: the overview's table, the counting of its passes and baselines against sums
// written out here, for any codec and size, and what it refuses.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "kernels/codec/codec.hpp"
#include "lib/base/error.hpp"
#include "lib/plan/savings.hpp"

namespace zeropp::plan {
namespace {

using testing::HasSubstr;

constexpr std::size_t kEighteenBillion = 18'000'000'000;
const SavingsConfig kOverview{.weights = {"int8", 64, {}}, .gradients = {"int8", 64, {}}};

TEST(PlanSavings, OverviewTable) {
  const std::vector<WidthRow> rows = savings_table(overview_codecs());
  ASSERT_EQ(rows.size(), 3);
  // A value of b bits has 2 bytes of scale for 64: b / 8 + 1 / 32 bytes.
  const double bits[] = {8, 6, 4};
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const double value = bits[i] / 8 + 1.0 / 32;
    EXPECT_DOUBLE_EQ(rows[i].bytes_per_value, value);
    EXPECT_DOUBLE_EQ(rows[i].scale_overhead, 2.0 / (64 * bits[i] / 8));
    EXPECT_DOUBLE_EQ(rows[i].bytes_per_step, 2 * value);
    EXPECT_DOUBLE_EQ(rows[i].reduction_fp32, 4 / value);
    EXPECT_DOUBLE_EQ(rows[i].reduction_16bit, 2 / value);
  }
  EXPECT_NEAR(rows[0].bytes_per_step, 2.06, 0.005);
  EXPECT_NEAR(rows[0].reduction_fp32, 3.9, 0.05);
  EXPECT_EQ(rows[2].codec, "int4:64");
}

TEST(PlanSavings, OverviewCall) {
  const Savings found = savings(kEighteenBillion, 384, kOverview, Dtype::fp32, Passes::once);
  EXPECT_DOUBLE_EQ(found.baseline_gb, 8 * 18.0 * 383 / 384);
  EXPECT_NEAR(found.reduction_factor, 3.879, 0.001);
  EXPECT_NEAR(found.savings_percent, 74.2, 0.05);
  const Savings narrow = savings(kEighteenBillion, 384, kOverview, Dtype::fp16, Passes::once);
  EXPECT_DOUBLE_EQ(narrow.baseline_gb, found.baseline_gb / 2);
  EXPECT_DOUBLE_EQ(narrow.zero_plusplus_gb, found.zero_plusplus_gb);
}

/// The paper's 3 M become 0.5 M + 0.25 M, and the scales.
TEST(PlanSavings, PaperDefaultsSaveAlmostFourTimes) {
  const std::size_t ranks = 64;
  const std::size_t parameters = ranks << 20;
  const Savings found = savings(parameters, ranks, {.hpz = true}, Dtype::bf16, Passes::zero3);
  const double sent = 63.0 * (1 << 20);
  EXPECT_DOUBLE_EQ(found.baseline_gb, sent * 6 / 1e9);
  EXPECT_DOUBLE_EQ(found.zero_plusplus_gb, sent * (1 + 2.0 / 256 + 0.5 + 2.0 / 128) / 1e9);
  EXPECT_NEAR(found.reduction_factor, 3.94, 0.005);
}

/// 0.25 M + 0.25 M, and the scales: 2 bytes for 64 of codes.
TEST(PlanSavings, WeightDifferencesHalveTheBytesOfWeights) {
  const std::size_t ranks = 64;
  const std::size_t parameters = ranks << 20;
  const SavingsConfig config{.hpz = true, .weight_differences = true};
  const Savings found = savings(parameters, ranks, config, Dtype::bf16, Passes::zero3);
  const double weights = 2.0 * 63 * (1 << 20);  // M
  EXPECT_DOUBLE_EQ(found.zero_plusplus_gb, 0.5 * (1 + 2.0 / 64) * weights / 1e9);
  EXPECT_NEAR(found.zero_plusplus_gb * 1e9 / weights, 0.516, 0.0005);
  EXPECT_NEAR(found.reduction_factor, 5.82, 0.005);
  // One gather of another codec, in the other counting as well; whole weights are not counted.
  for (const Passes passes : {Passes::once, Passes::zero3}) {
    const bool hpz = passes == Passes::zero3;
    const codec::CodecSpec int2{"int2", 64, {}};
    const SavingsConfig narrow{.hpz = hpz, .weight_differences = true, .differences = int2};
    const SavingsConfig same{.weights = int2, .hpz = hpz};
    EXPECT_EQ(savings(parameters, ranks, narrow, Dtype::bf16, passes).zero_plusplus_gb,
              savings(parameters, ranks, same, Dtype::bf16, passes).zero_plusplus_gb);
  }
}

TEST(PlanSavings, IsTheSumOfTheCodecsWireBytes) {
  std::mt19937_64 random(20230618);
  for (const codec::FormatInfo& format : codec::formats()) {
    for (int repetition = 0; repetition < 20; ++repetition) {
      const std::size_t parameters = 1 + random() % 100'000'000;
      const std::size_t ranks = 2 + random() % 5000;
      const Dtype baseline = repetition % 2 == 0 ? Dtype::fp32 : Dtype::bf16;
      const bool hpz = random() % 2 == 0;
      const codec::CodecSpec spec = codec::parse_codec(format.name);
      const std::size_t part = (parameters + ranks - 1) / ranks;
      const std::size_t sent = (ranks - 1) * codec::Codec(spec, baseline).wire_bytes(part);
      const std::size_t plain = (ranks - 1) * codec::Codec({}, baseline).wire_bytes(part);
      const Savings found =
          savings(parameters, ranks, {.weights = spec, .gradients = {"none", 0, {}}, .hpz = hpz},
                  baseline, Passes::zero3);
      const double expected = static_cast<double>((hpz ? 1 : 2) * sent + plain);
      EXPECT_DOUBLE_EQ(found.baseline_gb, 3e-9 * static_cast<double>(plain));
      EXPECT_DOUBLE_EQ(found.zero_plusplus_gb, 1e-9 * expected) << format.name;
      EXPECT_DOUBLE_EQ(found.reduction_factor, found.baseline_gb / found.zero_plusplus_gb);
      EXPECT_NEAR(found.savings_percent, 100 - 100 / found.reduction_factor, 1e-9);
    }
  }
}

template <class Call>
void expect_refused(const Call& call, const std::string& part) {
  try {
    call();
    ADD_FAILURE() << "taken: " << part;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::usage);
    EXPECT_THAT(error.what(), HasSubstr(part));
  }
}

TEST(PlanSavings, Refuses) {
  const auto of = [](std::size_t parameters, std::size_t ranks, bool hpz, Passes passes) {
    return [=] { savings(parameters, ranks, {.hpz = hpz}, Dtype::fp32, passes); };
  };
  expect_refused(of(0, 8, false, Passes::once), "model_params is 0");
  expect_refused(of((std::size_t{1} << 53) + 1, 8, false, Passes::once), "model_params");
  expect_refused(of(100, 1, false, Passes::once), "world_size is 1");
  expect_refused(of(100, 8, true, Passes::once), "hpz has no effect");
  expect_refused([] { savings(100, 8, {.weight_differences = true}, Dtype::bf16, Passes::zero3); },
                 "weight_differences are added to the copies that hpz keeps");
  expect_refused([] { parse_passes("twice"); }, "'twice'");
  expect_refused([] { parse_baseline("fp64"); }, "'fp64'");
  EXPECT_THROW(savings(100, 8, {.weights = {"int9", 0, {}}}, Dtype::fp32, Passes::once),
               std::invalid_argument);
}

}  // namespace
}  // namespace zeropp::plan
