// ctest: name=zero_measured_errors np=1,3,4 cuda=mpi,nccl timeout=180 labels=sanitize
// Errors of compression that the engine measures: zero where nothing is lost, elsewhere within the
// bounds of the codecs, in the requested steps and for the requested kinds of units. Errors of
// weight differences are those of a plain simulation of the copies. Measuring changes neither the
// training nor its bytes.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "lib/zero/quantization/quantization_error.hpp"
#include "tests/support/copy_simulation.hpp"
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

/// Options with weight differences: int4 unless `exact`.
zero::Options measured_differences(int stage, zero::CopyDtype copy, Dtype compute, bool exact) {
  zero::Options options = options_with("int8:64", "int4:64", "1-hop");
  options.stage = stage;
  options.measure_errors = 1;
  options.quantized_weights = !exact;
  options.compute = compute;
  options.weight_differences = {.enabled = true, .exact = exact, .copy = copy};
  return options;
}

/// With weight differences, which go from node to node, one rank a node; of four ranks two.
struct MeasuredCase : EngineCase {
  static int node_size(const zero::Options& options) {
    return options.weight_differences.enabled && world().size() < 4 ? 1 : node_size_of_four();
  }
  static zero::Options with_nodes(zero::Options options) {
    if (options.exchanges_differences())
      options.hpz_partition_size = static_cast<std::size_t>(node_size(options));
    return options;
  }
  explicit MeasuredCase(const zero::Options& options)
      : EngineCase(with_nodes(options), node_size(options),
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
    EXPECT_EQ(rows.size(), 2U * 3U * (stage > 0 ? 2U : 1U)) << "stage " << stage;
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

TEST(MeasuredErrors, AtEveryStageAreThoseOfTheCodecOfWholeWeights) {
  // In the first step all stages gather the same weights.
  std::map<std::string, double> first;
  for (const int stage : {3, 2, 1}) {
    zero::Options options = options_with("int4:64", "int8:64", "1-hop");
    options.stage = stage;
    for (const std::size_t persistent : {0U, 7'000U}) {  // units smaller than a block
      if (persistent > 0 && stage < 3) continue;
      options.persistence_threshold = persistent;
      for (const trace::ErrorRow& row : rows_of(options, 1)) {
        if (row.kind != "weights") continue;
        const auto [found, is_new] = first.try_emplace(row.unit_kind, row.relative_l2);
        EXPECT_EQ(row.relative_l2, found->second) << "stage " << stage << " " << row.unit_kind;
        if (row.unit_kind == "embedding") {
          EXPECT_GT(row.relative_l2, 0.01);
        }
      }
    }
  }
  EXPECT_EQ(first.size(), 3U);
}

/// Errors of the weights by kind of unit, on rank 0: the copies of the simulation beside the master
/// weights, both as the model computes with them.
class ReferenceErrors {
 public:
  ReferenceErrors(MeasuredCase& made, const zero::Options& options)
      : units_(made.model().units()),
        compute_(options.compute),
        simulation_(options, made.engine().plan().input.units),
        engine_(made.engine()) {}

  /// Sends the current weights to the copies.
  void follow(bool whole) {
    sums_.clear();
    for (std::size_t u = 0; u < units_.size(); ++u) {
      const std::vector<float> weights = engine_.gather_master(u);
      if (weights.empty()) continue;  // another rank than 0
      simulation_.follow(u, weights, whole);
      zero::ErrorSums& sums = sums_[zero::unit_kind(units_[u].name)];
      for (const zero::Tensor& tensor : units_[u].tensors) {
        for (std::size_t i = tensor.offset; i < tensor.offset + tensor.count(); ++i)
          sums.add(rounded(weights[i], compute_), rounded(simulation_.copy(u)[i], compute_));
      }
    }
  }
  [[nodiscard]] zero::ErrorMeasures of(const std::string& kind) const {
    return zero::measures_of(sums_.at(kind));
  }

 private:
  const std::vector<zero::Unit>& units_;
  Dtype compute_;
  CopySimulation simulation_;
  const zero::Engine& engine_;
  std::map<std::string, zero::ErrorSums> sums_;
};

/// Trains, and compares the weights' rows of each step with the reference.
void expect_errors_of_the_simulation(const zero::Options& options) {
  constexpr std::uint64_t kSteps = 4;
  MeasuredCase made(options);
  const zero::Options with_nodes = MeasuredCase::with_nodes(options);
  ReferenceErrors reference(made, with_nodes);
  for (std::uint64_t step = 0; step < kSteps; ++step) {
    reference.follow(/*whole=*/step == 0);
    made.step(step);
    const std::vector<trace::ErrorRow>& rows = made.recorder().errors;
    ASSERT_EQ(rows.size(), 6 * (step + 1));
    if (world().control().rank() > 0) continue;
    for (std::size_t i = 0; i < 3; ++i) {
      const trace::ErrorRow& row = rows[6 * step + i];
      ASSERT_EQ(row.kind, "weights");
      SCOPED_TRACE(testing::Message() << "step " << step << " " << row.unit_kind);
      const zero::ErrorMeasures expected = reference.of(row.unit_kind);
      EXPECT_NEAR(row.relative_l2, expected.relative_l2, 1e-9 * expected.relative_l2);
      EXPECT_NEAR(row.cosine, expected.cosine, 1e-12);
      EXPECT_EQ(row.largest, expected.largest);
      EXPECT_NEAR(row.norm_ratio, expected.norm_ratio, 1e-12);
      if (row.unit_kind == "embedding") {
        EXPECT_GT(row.relative_l2, 0);
      }
    }
  }
}

TEST(MeasuredErrors, OfWeightDifferencesAreThoseOfThePlainSimulation) {
  using enum zero::CopyDtype;
  for (const int stage : {1, 2, 3}) {
    for (const Dtype type : {Dtype::bf16, Dtype::fp16, Dtype::fp32}) {
      SCOPED_TRACE(testing::Message() << "stage " << stage << " " << name_of(type));
      zero::Options options = measured_differences(stage, compute, type, /*exact=*/false);
      expect_errors_of_the_simulation(options);
      options.weight_differences.codec = codec::parse_codec("int2:64");
      options.quantized_gradients = false;
      expect_errors_of_the_simulation(options);
    }
  }
  zero::Options options = measured_differences(3, fp32, Dtype::bf16, /*exact=*/false);
  expect_errors_of_the_simulation(options);
  options.hpz_device = zero::HpzDevice::cpu;
  options.offload_optimizer.device = zero::OffloadDevice::cpu;
  expect_errors_of_the_simulation(options);
}

TEST(MeasuredErrors, OfExactDifferencesAreNothing) {
  for (const int stage : {1, 2, 3}) {
    for (const Dtype type : {Dtype::bf16, Dtype::fp16}) {
      const auto rows =
          rows_of(measured_differences(stage, zero::CopyDtype::compute, type, /*exact=*/true), 4);
      ASSERT_EQ(rows.size(), 4U * 6U);
      for (const trace::ErrorRow& row : rows) {
        SCOPED_TRACE(testing::Message() << "stage " << stage << " step " << row.step << " "
                                        << row.kind << " " << row.unit_kind);
        if (row.kind == "gradients") {
          EXPECT_GT(row.relative_l2, 0.001);
          continue;
        }
        EXPECT_EQ(row.relative_l2, 0);
        EXPECT_EQ(row.largest, 0);
        EXPECT_EQ(row.cosine, 1);
        EXPECT_EQ(row.norm_ratio, 1);
      }
    }
  }
}

/// Trains with and without measurements, and compares.
void expect_no_change(zero::Options options) {
  Outcome outcome[2];
  for (const std::size_t interval : {0U, 1U}) {
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

TEST(MeasuredErrors, ChangeNothing) {
  for (const char* algorithm : {"1-hop", "2-hop"}) {
    for (const Dtype compute : {Dtype::fp32, Dtype::bf16}) {
      zero::Options options = options_with("int8:64", "int4:64", algorithm);
      options.compute = compute;
      options.error_feedback.hops = zero::FeedbackHops::both;
      expect_no_change(options);
    }
  }
  for (const int stage : {1, 2, 3}) {
    for (const bool exact : {false, true}) {
      SCOPED_TRACE(testing::Message() << "stage " << stage << (exact ? ", exact" : ""));
      expect_no_change(measured_differences(stage, zero::CopyDtype::compute, Dtype::bf16, exact));
    }
  }
}

}  // namespace
}  // namespace zeropp::test
