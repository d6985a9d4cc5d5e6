// ctest: name=contract2_engine_draws np=1,4 cuda=mpi,nccl timeout=120
// Training with stochastic rounding of weights and gradients: the same parameters, bit for bit, in
// a rerun, at every pipeline depth, and with hpZ on and off, whose backward reads what forward
// decoded; others than with rounding to nearest. Every micro-step has draws of its own.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/engine_case.hpp"

namespace zeropp::test {
namespace {

std::string trained(const std::string& rounding, int node_size, std::size_t depth,
                    std::size_t partition) {
  zero::Options options;
  options.deterministic = true;
  options.quantized_weights = true;
  options.quantized_gradients = true;
  options.weight_codec = codec::parse_codec("int8:32" + rounding);
  options.gradient_codec_intra = codec::parse_codec("int4:32" + rounding);
  options.gradient_codec_inter = options.gradient_codec_intra;
  options.accumulation_steps = 2;
  options.pipeline_depth = depth;
  options.hpz_partition_size = partition;
  const auto make = [](const model::Context& context) { return make_tiny_gpt(context); };
  return EngineCase(options, node_size, make).train(3, 2).hash;
}

TEST(StochasticRounding, GivesTheSameParametersInEveryRun) {
  const int node_size = world().size() == 1 ? 1 : world().size() / 2;
  const std::string first = trained("+sr", node_size, 1, 1);
  EXPECT_EQ(trained("+sr", node_size, 1, 1), first) << "a rerun";
  EXPECT_EQ(trained("+sr", node_size, 3, 1), first) << "in three chunks";
  EXPECT_NE(trained("", node_size, 1, 1), first);
  if (node_size > 1) {
    EXPECT_EQ(trained("+sr", node_size, 1, static_cast<std::size_t>(node_size)), first) << "hpZ";
  }
}

/// The square of the norm of one batch's mean gradient over so many micro-steps.
double squared_norm(zero::Options options, std::size_t micro_steps) {
  options.accumulation_steps = micro_steps;
  const auto make = [](const model::Context& context) { return make_tiny_gpt(context); };
  return std::pow(EngineCase(options, 1, make).norm_of_one_batch(), 2);
}

TEST(StochasticRounding, DrawsAnewInEveryMicroStep) {
  zero::Options options;
  options.deterministic = true;
  options.reduce_scatter_algorithm = "ordered";
  const double exact = squared_norm(options, 1);
  options.quantized_gradients = true;
  options.reduce_scatter_algorithm = "1-hop";
  options.gradient_codec_intra = codec::parse_codec("int3:32+sr");
  options.gradient_codec_inter = options.gradient_codec_intra;
  // Draws add their variance to the square, which a mean of so many divides; one draw for all would
  // leave it as it is.
  const double of_one = squared_norm(options, 1) - exact;
  const double of_many = squared_norm(options, 16) - exact;
  EXPECT_GT(of_one, 0.05 * exact) << "the case is about draws that matter";
  EXPECT_LT(std::abs(of_many), of_one / 2);
}

}  // namespace
}  // namespace zeropp::test
