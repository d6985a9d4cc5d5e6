// ctest: name=contract5_engine_mean_gradient np=1,3,4 cuda=mpi,nccl timeout=240 labels=sanitize
// The gradient that the optimizer sees is the true mean over ranks and micro-steps: its global norm
// against the closed form of the quadratic, at any world size, topology, unit size (1, primes, odd)
// and stage. The optimizer hides a factor; the norm cannot.
#include <gtest/gtest.h>

#include "tests/support/quadratic_case.hpp"

namespace zeropp::test {
namespace {

const std::vector<std::size_t> kUnitSizes{1, 7, 1009, 4096, 50257};

/// Norm of the mean gradient of step 0 at the initial weights, in double precision.
double expected_norm(QuadraticCase& made, const zero::Options& options) {
  const model::Quadratic& model = *made.model;
  const double tilt = made.mean_tilt(0);
  double sum = 0;
  for (std::size_t unit = 0; unit < kUnitSizes.size(); ++unit) {
    const std::vector<float> weights = made.engine_case.engine().gather_master(unit);
    for (std::size_t i = 0; i < kUnitSizes[unit] && !weights.empty(); ++i) {
      const double weight =
          options.compute == Dtype::bf16 ? to_float(saturating_cast<Bf16>(weights[i])) : weights[i];
      const double g = model.gradient(model.first(unit) + i, weight, tilt);
      sum += g * g;
    }
  }
  return std::sqrt(sum);
}

void expect_mean(zero::Options options, int node_size, double tolerance) {
  QuadraticCase made(kUnitSizes, options, node_size, kLength, kSequences);
  const double expected = expected_norm(made, options);
  const Outcome outcome = made.engine_case.train(1);
  if (world().control().rank() == 0) {
    EXPECT_NEAR(outcome.norms[0] / expected, 1.0, tolerance)
        << "stage " << options.stage << ", node size " << node_size << ", "
        << options.accumulation_steps << " micro-steps, " << options.reduce_scatter_algorithm;
  }
}

TEST(MeanGradient, OfEveryStageAndDtype) {
  for (const int stage : {0, 1, 2, 3}) {
    for (const Dtype compute : {Dtype::fp32, Dtype::bf16}) {
      for (const std::size_t micro_steps : {1U, 3U}) {
        zero::Options options;
        options.stage = stage;
        options.compute = compute;
        options.accumulation_steps = micro_steps;
        options.reduce_bucket_size = 9000;
        expect_mean(options, 0, compute == Dtype::fp32 ? 1e-5 : 1e-3);
      }
    }
  }
}

TEST(MeanGradient, OfEveryReduceScatterAndTopology) {
  for (const auto* algorithm : collective::reduce_scatter_algorithms()) {
    for (const int node_size : node_sizes()) {
      for (const bool quantized : {false, true}) {
        if (quantized && !algorithm->traits.any_codec) continue;
        zero::Options options;
        options.reduce_scatter_algorithm = algorithm->name;
        options.quantized_gradients = quantized;
        options.gradient_codec_intra = {"int8", 64, {}};
        options.gradient_codec_inter = {"int8", 64, {}};
        options.accumulation_steps = 2;
        options.pipeline_depth = 2;
        expect_mean(options, node_size, quantized ? 2e-3 : 1e-5);
      }
    }
  }
}

TEST(MeanGradient, OfEveryShardGroup) {
  const auto ranks = static_cast<std::size_t>(world().size());
  for (const int node_size : node_sizes()) {
    for (std::size_t group = 2; group < ranks; ++group) {
      if (!comm::fits_nodes(comm::declared_topology(world().size(), node_size), group)) continue;
      for (const bool quantized : {false, true}) {
        zero::Options options;
        options.shard_group_size = group;
        options.quantized_gradients = quantized;
        options.gradient_codec_intra = {"int8", 64, {}};
        options.gradient_codec_inter = {"int8", 64, {}};
        options.accumulation_steps = 3;
        options.reduce_bucket_size = 9000;
        expect_mean(options, node_size, quantized ? 2e-3 : 1e-5);
      }
    }
  }
}

TEST(MeanGradient, TrainsTowardsTheMinimum) {
  zero::Options options;
  options.quantized_weights = true;
  options.quantized_gradients = true;
  QuadraticCase made(kUnitSizes, options, 1, kLength, kSequences);
  const Outcome outcome = made.engine_case.train(40);
  EXPECT_LT(outcome.losses.back(), outcome.losses.front());
}

}  // namespace
}  // namespace zeropp::test
