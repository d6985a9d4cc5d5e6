// ctest: name=contract3_cpu_checkpointing np=1,4 cuda=mpi,nccl timeout=200 labels=sanitize
// With inputs of recomputing blocks on the host until backward parameters have the bits that they
// have without: whether every block recomputes or some do, with micro-steps and evaluations, in
// every dtype. The device holds less, by what the closed form says, and the host that much.
#include <gtest/gtest.h>

#include "tests/support/engine_case.hpp"

namespace zeropp::test {
namespace {

constexpr std::size_t kLayers = 7;
constexpr std::size_t kHidden = 24;

EngineCase::MakeModel deep(const std::string& name, std::size_t interval, bool on_host) {
  return [=](const model::Context& context) {
    return model::make_model({.name = name,
                              .num_layers = kLayers,
                              .hidden_size = kHidden,
                              .num_attention_heads = 3,
                              .seq_length = kLength,
                              .recompute_activations = interval > 0,
                              .recompute_interval = std::max<std::size_t>(1, interval),
                              .cpu_checkpointing = on_host},
                             context);
  };
}

class CpuCheckpointing : public testing::TestWithParam<std::tuple<int, Dtype, const char*>> {};
INSTANTIATE_TEST_SUITE_P(StagesAndDtypes, CpuCheckpointing,
                         testing::Combine(testing::Values(1, 3),
                                          testing::Values(Dtype::fp32, Dtype::bf16, Dtype::fp16),
                                          testing::Values("gpt", "llama")));

TEST_P(CpuCheckpointing, ChangesNoBit) {
  const auto& [stage, compute, name] = GetParam();
  zero::Options options;
  options.stage = stage;
  options.deterministic = true;
  options.compute = compute;
  options.accumulation_steps = 2;
  options.loss_scale.initial_power = 8;
  const auto made = [&](std::size_t interval, bool on_host) {
    return EngineCase(options, node_size_of_four(), deep(name, interval, on_host), kLength,
                      kSequences);
  };
  const Outcome kept = made(0, false).train(3, 2);
  EXPECT_NE(kept.hash, made(0, false).engine().parameters_hash()) << "nothing is trained";
  for (const auto& [interval, away] : {std::pair<std::size_t, std::size_t>{1, 5}, {2, 2}, {3, 1}}) {
    SCOPED_TRACE(testing::Message() << "every " << interval);
    EngineCase there = made(interval, false);
    EngineCase away_from_it = made(interval, true);
    const Outcome outcome = away_from_it.train(3, 2);
    EXPECT_EQ(outcome.hash, kept.hash);
    EXPECT_EQ(outcome.losses, kept.losses);
    EXPECT_EQ(outcome.norms, kept.norms);
    const zero::MemoryReport more = there.model().memory();
    const zero::MemoryReport less = away_from_it.model().memory();
    EXPECT_EQ(less.actual, less.predicted);
    const std::size_t element = device().memory == MemoryKind::device ? size_of(compute) : 4;
    const std::size_t inputs = away * kSequences * kLength * kHidden * element;
    EXPECT_EQ(more.actual - less.actual, inputs);
    EXPECT_TRUE(there.model().offloaded_memory().empty());
    const auto on_host = away_from_it.model().offloaded_memory();
    ASSERT_EQ(on_host.size(), 1U);
    EXPECT_EQ(on_host.front().name, "offloaded_activations");
    EXPECT_EQ(on_host.front().predicted, inputs);
    EXPECT_EQ(on_host.front().actual, inputs);
  }
}

}  // namespace
}  // namespace zeropp::test
