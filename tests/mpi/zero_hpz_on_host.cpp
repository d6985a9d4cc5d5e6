// ctest: name=zero_hpz_on_host np=4 cuda=mpi,nccl timeout=240 labels=sanitize
// hpZ's secondary copy in the memory of the host: the parameters, losses and nodes' copies of
// training with the copy on the device, and without hpZ, bit for bit; the same bytes are sent, and
// the copy is no memory of the device.
#include <gtest/gtest.h>

#include <map>
#include <utility>

#include "tests/support/engine_case.hpp"

namespace zeropp::test {
namespace {

constexpr int kHpzNode = 2;

EngineCase hpz_case(const zero::Options& options) { return {options, kHpzNode, make_tiny_gpt}; }

zero::Options with_hpz(Dtype compute = Dtype::bf16) {
  zero::Options options;
  options.deterministic = true;
  options.compute = compute;
  options.hpz_partition_size = kHpzNode;
  options.weight_codec = codec::parse_codec("int8:64");
  return options;
}

zero::Options hpz_on_host(zero::Options options) {
  options.hpz_device = zero::HpzDevice::cpu;
  return options;
}

std::map<std::string, std::size_t> memory_of(EngineCase& engine_case) {
  std::map<std::string, std::size_t> bytes;
  for (const zero::MemoryReport& row : engine_case.engine().memory()) {
    EXPECT_EQ(row.actual, row.predicted) << row.name;
    bytes[row.name] = row.actual;
  }
  return bytes;
}

/// Trains with the copy on the device and on the host.
void expect_the_same_training(const zero::Options& options, const std::string& expected = "") {
  EngineCase there = hpz_case(options);
  EngineCase here = hpz_case(hpz_on_host(options));
  const Outcome on_device = there.train(4, 2);
  const Outcome outcome = here.train(4, 2);
  EXPECT_EQ(outcome.hash, on_device.hash);
  EXPECT_EQ(expected.empty() ? outcome.hash : expected, outcome.hash);
  EXPECT_EQ(outcome.losses, on_device.losses);
  EXPECT_EQ(outcome.norms, on_device.norms);
  EXPECT_EQ(outcome.sent, on_device.sent);
  EXPECT_EQ(outcome.secondary_gathers, on_device.secondary_gathers);
  EXPECT_GT(outcome.secondary_gathers, 0U);
  EXPECT_EQ(outcome.backward_inter, 0U);
  EXPECT_EQ(here.engine().copy_hashes(), there.engine().copy_hashes());

  auto before = memory_of(there);
  auto after = memory_of(here);
  EXPECT_GT(before["secondary"], 0U);
  EXPECT_EQ(before.count("offloaded_secondary"), 0U);
  EXPECT_EQ(after["secondary"], 0U);
  EXPECT_EQ(after["offloaded_secondary"], before["secondary"]);
}

TEST(HpzOnHost, GivesTheParametersOfTheDeviceAndOfNoHpz) {
  for (const Dtype compute : {Dtype::bf16, Dtype::fp16, Dtype::fp32}) {
    for (const bool quantized : {false, true}) {
      for (const std::size_t micro_steps : {1U, 2U}) {
        SCOPED_TRACE(std::string(name_of(compute)) + (quantized ? " qwZ " : " ") +
                     std::to_string(micro_steps));
        zero::Options options = with_hpz(compute);
        options.quantized_weights = quantized;
        options.quantized_gradients = quantized;
        options.accumulation_steps = micro_steps;
        zero::Options without = options;
        without.hpz_partition_size = 1;
        expect_the_same_training(options, hpz_case(without).train(4, 2).hash);
      }
    }
  }
}

TEST(HpzOnHost, GivesThemForEveryAlgorithmOfItsGather) {
  for (const char* algorithm : {"flat", "direct", "native", "native-images"}) {
    SCOPED_TRACE(algorithm);
    zero::Options options = with_hpz();
    options.secondary_gather_algorithm = algorithm;
    expect_the_same_training(options);
  }
}

TEST(HpzOnHost, GivesThemWithUpdatesInBackwardAndUnitsThatStay) {
  zero::Options options = with_hpz();
  options.update_in_backward = true;
  options.quantized_weights = true;
  options.reduce_bucket_size = 6000;
  expect_the_same_training(options);
  options.persistence_threshold = 7000;  // the embedding, of three units
  options.overlap_comm = false;
  options.quantized_weights = false;
  expect_the_same_training(options);
}

TEST(HpzOnHost, GivesThemWithAnOffloadedOptimizer) {
  zero::Options options = with_hpz();
  options.offload_optimizer = {.device = zero::OffloadDevice::cpu, .piece_size = 1024};
  options.offload_param = {.device = zero::OffloadDevice::cpu};
  expect_the_same_training(options);
}

TEST(HpzOnHost, GivesThemWhereAGroupIsOfSeveralNodes) {
  zero::Options options = with_hpz();
  options.hpz_partition_size = 4;
  EngineCase there = hpz_case(options);
  EngineCase here = hpz_case(hpz_on_host(options));
  EXPECT_EQ(here.train(3).hash, there.train(3).hash);
}

class CopiesOnHost : public testing::TestWithParam<std::tuple<zero::CopyDtype, const char*>> {};

TEST_P(CopiesOnHost, AreAddedToACopyOnTheHost) {
  const auto& [copy, whole] = GetParam();
  zero::Options options = with_hpz();
  options.quantized_weights = true;
  options.weight_differences = {.enabled = true, .copy = copy, .refresh_interval = 3};
  options.weight_codec = codec::parse_codec(whole);
  expect_the_same_training(options);
  options.accumulation_steps = 2;
  options.pipeline_depth = 3;
  options.weight_differences.codec = codec::parse_codec("int8:32");
  expect_the_same_training(options);
  options.weight_differences.codec = {};
  expect_the_same_training(options);
}

INSTANTIATE_TEST_SUITE_P(HpzOnHost, CopiesOnHost,
                         testing::Combine(testing::Values(zero::CopyDtype::compute,
                                                          zero::CopyDtype::fp32),
                                          testing::Values("int8:64", "none")));

/// Differences are added, and whole weights arrive, on the device: an exchange has room for it.
TEST(HpzOnHost, BringsACopyToTheDeviceForAnExchange) {
  zero::Options options = with_hpz();
  options.quantized_weights = true;
  options.weight_differences.enabled = true;
  EngineCase there = hpz_case(options);
  EngineCase here = hpz_case(hpz_on_host(options));
  const zero::ScheduleInput& on_device = there.engine().plan().input;
  const zero::ScheduleInput& on_host = here.engine().plan().input;
  for (std::size_t u = 0; u < on_host.units.size(); ++u) {
    const std::size_t copy = (on_host.units[u].secondary * 2 + 255) / 256 * 256;
    EXPECT_EQ(on_host.unit_memory[u].exchange_workspace,
              on_device.unit_memory[u].exchange_workspace + copy);
  }
}

TEST(HpzOnHost, LeavesTheDeviceTheMemoryOfTheCopy) {
  if (device().backend == Backend::host) GTEST_SKIP() << "the host's memory is the device's";
  const auto held = [](const zero::Options& options) {
    EngineCase engine_case = hpz_case(options);
    (void)engine_case.step(0);
    return std::pair(device().runtime->memory_use().current, memory_of(engine_case)["secondary"]);
  };
  const auto [with_copy, copy] = held(with_hpz());
  const auto [without, nothing] = held(hpz_on_host(with_hpz()));
  EXPECT_EQ(nothing, 0U);
  EXPECT_GE(with_copy, without + copy);
}

}  // namespace
}  // namespace zeropp::test
