// ctest: name=zero_measured_errors np=1,4 cuda=mpi,nccl timeout=120 labels=sanitize
// Errors of compression that the engine measures: zero where nothing is lost, elsewhere within the
// bounds of the codecs, in the requested steps and for the requested kinds of units. Measuring
// changes neither the training nor its bytes.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "tests/support/engine_case.hpp"

namespace zeropp::test {
namespace {

zero::Options options_with(const char* weights, const char* gradients, const char* algorithm) {
  zero::Options options;
  options.quantized_weights = options.quantized_gradients = true;
  options.weight_codec = codec::parse_codec(weights);
  options.gradient_codec_intra = options.gradient_codec_inter = codec::parse_codec(gradients);
  options.reduce_scatter_algorithm = algorithm;
  options.accumulation_steps = 2;
  options.reduce_bucket_size = 9'000;  // several buckets, and units in several of them
  options.measure_errors = 2;
  options.deterministic = true;  // engines are compared bit for bit
  return options;
}

struct MeasuredCase : EngineCase {
  explicit MeasuredCase(const zero::Options& options)
      : EngineCase(options, world().size() == 4 ? 2 : world().size(),
                   [](const model::Context& context) { return make_tiny_gpt(context); }) {}
};

std::vector<trace::ErrorRow> rows_of(const zero::Options& options, std::uint64_t steps) {
  MeasuredCase made(options);
  made.train(steps);
  return made.recorder().errors;
}

TEST(MeasuredErrors, AreNothingWithoutCompression) {
  for (const int stage : {0, 1, 2, 3}) {
    zero::Options options;
    options.stage = stage;
    options.accumulation_steps = 2;
    options.reduce_bucket_size = 9'000;
    options.measure_errors = 1;
    options.reduce_scatter_algorithm = "ordered";
    const auto rows = rows_of(options, 2);
    // Weights have errors where they are gathered.
    EXPECT_EQ(rows.size(), 2U * 3U * (stage == 3 ? 2U : 1U)) << "stage " << stage;
    for (const trace::ErrorRow& row : rows) {
      EXPECT_EQ(row.relative_l2, 0) << "stage " << stage << " " << row.kind;
      EXPECT_EQ(row.cosine, 1);
      EXPECT_EQ(row.largest, 0);
      EXPECT_EQ(row.norm_ratio, 1);
    }
  }
}

TEST(MeasuredErrors, AreWithinWhatTheCodecsPromise) {
  // A block with the largest magnitude a: at most about a / 254 a value with int8, twice that
  // where a sum is encoded again, and ranks times it over what ranks send.
  for (const char* algorithm : {"1-hop", "2-hop"}) {
    const auto rows = rows_of(options_with("int8:64", "int8:64", algorithm), 3);
    for (const trace::ErrorRow& row : rows) {
      SCOPED_TRACE(testing::Message() << algorithm << " " << row.kind << " " << row.unit_kind
                                      << " of step " << row.step);
      EXPECT_GT(row.relative_l2, 1e-4);
      EXPECT_LT(row.relative_l2, 0.03);
      EXPECT_GT(row.cosine, 1 - 0.03 * 0.03);
      EXPECT_LE(row.cosine, 1);
      EXPECT_GT(row.largest, 1e-4);
      EXPECT_LT(row.largest, row.kind == "weights" ? 1.01 / 254 : 0.05);
      EXPECT_NEAR(row.norm_ratio, 1, 0.01);
      // The cosine rule.
      EXPECT_NEAR(row.relative_l2 * row.relative_l2,
                  1 + row.norm_ratio * row.norm_ratio - 2 * row.norm_ratio * row.cosine, 1e-9);
    }
  }
}

TEST(MeasuredErrors, GrowAsBitsGoAway) {
  std::map<std::string, double> before;
  for (const char* codec : {"int8:64", "int6:64", "int4:64"}) {
    for (const trace::ErrorRow& row : rows_of(options_with(codec, codec, "1-hop"), 1)) {
      // Scales and biases are constants at first, which no width errs in.
      if (row.kind == "weights" && row.unit_kind != "embedding") continue;
      double& smaller = before[row.kind + row.unit_kind];
      EXPECT_GT(row.relative_l2, 3 * smaller) << codec << " " << row.kind << " " << row.unit_kind;
      smaller = row.relative_l2;
    }
  }
}

TEST(MeasuredErrors, HaveARowForEveryKindInTheStepsAskedFor) {
  const auto rows = rows_of(options_with("int8:64", "int4:64", "1-hop"), 5);
  std::set<std::string> found;
  for (const trace::ErrorRow& row : rows) {
    EXPECT_TRUE(
        found.insert(std::to_string(row.step) + " " + row.kind + " " + row.unit_kind).second);
  }
  std::set<std::string> expected;
  for (const char* step : {"0", "2", "4"}) {
    for (const char* kind : {"weights", "gradients"}) {
      for (const char* unit : {"embedding", "block", "head"}) {
        expected.insert(std::string(step) + " " + kind + " " + unit);
      }
    }
  }
  EXPECT_EQ(found, expected);
}

/// Every second step of all is measured, whichever run takes it.
TEST(MeasuredErrors, CountTheStepsOfTheRunBefore) {
  MeasuredCase made(options_with("int8:64", "int4:64", "1-hop"));
  made.engine().restore({.steps = {.taken = 3, .begun = 3}},
                        [](const checkpoint::Slice&, std::span<std::byte> values) {
                          std::ranges::fill(values, std::byte{0x3C});  // 0.01 each
                        });
  made.train(4);
  std::set<std::uint64_t> steps;
  for (const trace::ErrorRow& row : made.recorder().errors) steps.insert(row.step);
  EXPECT_EQ(steps, (std::set<std::uint64_t>{4, 6}));
}

TEST(MeasuredErrors, ChangeNothing) {
  for (const char* algorithm : {"1-hop", "2-hop"}) {
    for (const Dtype compute : {Dtype::fp32, Dtype::bf16}) {
      Outcome outcome[2];
      for (const std::size_t interval : {0U, 1U}) {
        zero::Options options = options_with("int8:64", "int4:64", algorithm);
        options.compute = compute;
        options.error_feedback.hops = zero::FeedbackHops::both;
        options.measure_errors = interval;
        MeasuredCase made(options);
        outcome[interval] = made.train(3);
        EXPECT_EQ(made.recorder().errors.empty(), interval == 0);
        for (const zero::MemoryReport& row : made.engine().memory()) {
          EXPECT_EQ(row.actual, row.predicted) << row.name;
        }
      }
      EXPECT_EQ(outcome[0].hash, outcome[1].hash);
      EXPECT_EQ(outcome[0].losses, outcome[1].losses);
      EXPECT_EQ(outcome[0].sent, outcome[1].sent);
    }
  }
}

}  // namespace
}  // namespace zeropp::test
