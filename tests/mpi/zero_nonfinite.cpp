// ctest: name=zero_nonfinite np=4 cuda=mpi,nccl timeout=240 labels=sanitize
// A gradient on one rank that is not finite: no rank takes the step, it is counted, parameters and
// what the optimizer keeps stay as they were, and the next step proceeds. At every stage, with
// every reduce-scatter, plain and quantized, in fp32, bf16 and fp16, with every optimizer.
#include <gtest/gtest.h>

#include <limits>
#include <map>

#include "lib/collective/collective.hpp"
#include "tests/support/engine_case.hpp"
#include "tests/support/optimizer_reference.hpp"
#include "tests/support/planted_model.hpp"

namespace zeropp::test {
namespace {

std::unique_ptr<EngineCase> make_case(const zero::Options& options, int node_size,
                                      const Plants& plants, const optim::Options& optimizer) {
  const auto make = [&](const model::Context& context) {
    return std::make_unique<PlantedModel>(make_tiny_gpt(context), plants,
                                          options.accumulation_steps);
  };
  return std::make_unique<EngineCase>(options, node_size, make, 16, 2, optimizer);
}

/// Six steps, of which the second, fourth and fifth meet a value that is not finite.
void check_skips(const zero::Options& options, int node_size,
                 const optim::Options& optimizer = {.learning_rate = 2e-3, .weight_decay = 0.1}) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const int last = world().size() - 1;
  const Plants plants{{1, {std::numeric_limits<float>::quiet_NaN(), last, 0}},
                      {3, {kInfinity, 0, 2}},
                      {4, {-kInfinity, last, 1}}};
  const auto planted = make_case(options, node_size, plants, optimizer);
  auto& counters = planted->recorder().counters;
  std::uint64_t skipped = 0;
  for (std::uint64_t step = 0; step < 6; ++step) {
    const bool bad = plants.contains(step);
    const std::string before = planted->engine().parameters_hash();
    const auto result = planted->step(step);
    skipped += bad ? 1 : 0;
    EXPECT_EQ(result.skipped, bad) << "step " << step;
    EXPECT_EQ(std::isfinite(result.grad_norm), !bad) << "step " << step;
    EXPECT_TRUE(std::isfinite(result.loss)) << "step " << step;
    EXPECT_EQ(planted->engine().parameters_hash() == before, bad) << "step " << step;
    EXPECT_EQ(counters["nonfinite_steps"], skipped) << "step " << step;
  }
  // The optimizer's state and step count did not move either: the run is the one without those
  // batches.
  const auto clean = make_case(options, node_size, {}, optimizer);
  for (const std::uint64_t step : {0, 2, 5}) clean->step(step);
  EXPECT_EQ(clean->engine().parameters_hash(), planted->engine().parameters_hash());
  EXPECT_EQ(clean->recorder().counters["nonfinite_steps"], 0U);
}

TEST(NonfiniteGradient, IsSkippedAtEveryStageWithEveryReduceScatter) {
  for (const auto* algorithm : collective::reduce_scatter_algorithms()) {
    for (const int stage : {0, 1, 2, 3}) {
      for (const Dtype compute : {Dtype::fp32, Dtype::bf16, Dtype::fp16}) {
        SCOPED_TRACE(testing::Message()
                     << algorithm->name << ", stage " << stage << ", " << name_of(compute));
        zero::Options options;
        options.stage = stage;
        options.compute = compute;
        options.loss_scale.fixed = 1024;
        options.reduce_scatter_algorithm = algorithm->name;
        check_skips(options, world().size() == 4 ? 2 : 1);
      }
    }
  }
}

TEST(NonfiniteGradient, IsSkippedByEveryOptimizer) {
  for (const optim::Options& optimizer : optimizer_cases()) {
    SCOPED_TRACE(describe(optimizer));
    zero::Options options;
    options.compute = Dtype::bf16;
    options.gradient_clipping = 0.1;
    check_skips(options, 1, optimizer);
  }
}

TEST(NonfiniteGradient, IsSkippedWhenQuantized) {
  for (const auto* algorithm : collective::reduce_scatter_algorithms()) {
    if (!algorithm->traits.any_codec) continue;
    for (const int node_size : node_sizes()) {
      for (const Dtype compute : {Dtype::fp32, Dtype::bf16, Dtype::fp16}) {
        SCOPED_TRACE(testing::Message()
                     << algorithm->name << ", node size " << node_size << ", " << name_of(compute));
        zero::Options options;
        options.quantized_weights = true;
        options.quantized_gradients = true;
        options.hpz_partition_size = static_cast<std::size_t>(node_size);
        options.compute = compute;
        options.loss_scale.fixed = 1024;
        options.reduce_scatter_algorithm = algorithm->name;
        options.accumulation_steps = 2;
        options.gradient_clipping = 0.1;
        options.reduce_bucket_size = 20'000;
        check_skips(options, node_size);
      }
    }
  }
}

}  // namespace
}  // namespace zeropp::test
