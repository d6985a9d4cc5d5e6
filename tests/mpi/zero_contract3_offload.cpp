// ctest: name=contract3_offload np=1,4 cuda=mpi,nccl timeout=300 labels=sanitize
// With master weights and the optimizer in the memory of the host or in files the parameters have
// the bits that they have without: at every stage, in every dtype, with hpZ on and off, with
// compressed weights and gradients, however much is offloaded and in whatever pieces. And the step
// steps.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include "tests/support/engine_case.hpp"
#include "tests/support/optimizer_reference.hpp"

namespace zeropp::test {
namespace {

zero::Options deterministic(int stage, Dtype compute) {
  zero::Options options;
  options.stage = stage;
  options.deterministic = true;
  options.compute = compute;
  options.gradient_clipping = 0.05;  // in effect in every step
  options.loss_scale.initial_power = 8;
  return options;
}

std::string folder() { return std::filesystem::temp_directory_path().string(); }

/// Ways to offload: all in one piece and buffer, and in ways that leave pieces and ratios odd; to
/// the host and to files, whose reads and writes overlap or do not.
std::vector<zero::OffloadOptimizerOptions> offloads() {
  return {{.device = zero::OffloadDevice::cpu, .buffer_count = 1},
          {.device = zero::OffloadDevice::cpu,
           .pin_memory = true,
           .buffer_count = 3,
           .piece_size = 1000},
          {.device = zero::OffloadDevice::cpu, .buffer_count = 2, .ratio = 0.4, .piece_size = 777},
          {.device = zero::OffloadDevice::nvme, .nvme_path = folder(), .buffer_count = 1},
          {.device = zero::OffloadDevice::nvme,
           .nvme_path = folder(),
           .pin_memory = true,
           .buffer_count = 4,
           .piece_size = 5000,
           .sub_group_size = 1000},
          {.device = zero::OffloadDevice::nvme,
           .nvme_path = folder(),
           .buffer_count = 3,
           .ratio = 0.4,
           .sub_group_size = 777,
           .pipeline_read = false,
           .pipeline_write = false}};
}

/// Ways to offload the weights with the optimizer: on the host, all in files, and some of them.
struct OfBoth {
  zero::OffloadOptimizerOptions optimizer;
  zero::OffloadParamOptions param;
};
std::vector<OfBoth> offloads_of_both() {
  const auto all = offloads();
  const zero::OffloadParamOptions host{.device = zero::OffloadDevice::cpu};
  const zero::OffloadParamOptions pinned{.device = zero::OffloadDevice::cpu, .pin_memory = true};
  const zero::OffloadParamOptions file{
      .device = zero::OffloadDevice::nvme, .nvme_path = folder(), .max_in_cpu = 0};
  const zero::OffloadParamOptions one_buffer{.device = zero::OffloadDevice::nvme,
                                             .nvme_path = folder(),
                                             .buffer_count = 1,
                                             .max_in_cpu = 4000};
  return {{all[1], host},       {all[1], pinned}, {all[1], file}, {all[4], host},
          {all[4], one_buffer}, {all[3], file},   {all[4], file}};
}

void expect_predicted_memory(const zero::Engine& engine) {
  for (const zero::MemoryReport& row : engine.memory()) {
    EXPECT_EQ(row.actual, row.predicted) << row.name;
  }
}

void expect_same(const Outcome& outcome, const Outcome& expected) {
  EXPECT_EQ(outcome.hash, expected.hash);
  EXPECT_EQ(outcome.losses, expected.losses);
  EXPECT_THAT(outcome.norms, testing::Pointwise(testing::NanSensitiveDoubleEq(), expected.norms));
  EXPECT_EQ(outcome.sent, expected.sent);
}

std::string initial_hash(const zero::Options& options) {
  return EngineCase(options, 0, make_tiny_gpt).engine().parameters_hash();
}

class Offload : public testing::TestWithParam<std::tuple<int, Dtype>> {};
INSTANTIATE_TEST_SUITE_P(StagesAndDtypes, Offload,
                         testing::Combine(testing::Values(0, 1, 2, 3),
                                          testing::Values(Dtype::fp32, Dtype::bf16, Dtype::fp16)));

TEST_P(Offload, ChangesNoBit) {
  const auto [stage, compute] = GetParam();
  const int nodes = node_size_of_four();
  std::vector<std::size_t> groups{1};
  if (stage == 3 && nodes > 1) groups.push_back(static_cast<std::size_t>(nodes));
  std::set<std::string> hashes;
  for (const std::size_t group : groups) {
    zero::Options options = deterministic(stage, compute);
    options.hpz_partition_size = group;
    const Outcome plain = EngineCase(options, nodes, make_tiny_gpt).train(3, 2);
    hashes.insert(plain.hash);
    EXPECT_NE(plain.hash, initial_hash(options)) << "nothing is trained";
    EXPECT_GT(plain.norms.front(), options.gradient_clipping);
    for (const auto& offload : offloads()) {
      SCOPED_TRACE(testing::Message() << "hpZ " << group << ", pieces of " << offload.piece_size);
      options.offload_optimizer = offload;
      EngineCase made(options, nodes, make_tiny_gpt);
      expect_same(made.train(3, 2), plain);
      expect_predicted_memory(made.engine());
    }
  }
  EXPECT_EQ(hashes.size(), 1U) << "hpZ changes parameters";
}

class OffloadOfParameters : public testing::TestWithParam<Dtype> {};
INSTANTIATE_TEST_SUITE_P(Dtypes, OffloadOfParameters,
                         testing::Values(Dtype::fp32, Dtype::bf16, Dtype::fp16));

TEST_P(OffloadOfParameters, ChangesNoBit) {
  const Dtype compute = GetParam();
  const int nodes = node_size_of_four();
  for (const std::size_t group : {1, nodes}) {
    for (const bool codecs : {false, true}) {
      zero::Options options = deterministic(3, compute);
      options.hpz_partition_size = group;
      options.quantized_weights = codecs;
      options.quantized_gradients = codecs;
      options.accumulation_steps = codecs ? 2 : 1;
      const Outcome plain = EngineCase(options, nodes, make_tiny_gpt).train(3, 2);
      for (const auto& [optimizer, param] : offloads_of_both()) {
        SCOPED_TRACE(testing::Message()
                     << "hpZ " << group << ", codecs " << codecs << ", optimizer "
                     << enum_name(optimizer.device) << ", parameters " << enum_name(param.device)
                     << " but " << param.max_in_cpu << " in buffers of " << param.buffer_count);
        options.offload_optimizer = optimizer;
        options.offload_param = param;
        EngineCase made(options, nodes, make_tiny_gpt);
        expect_same(made.train(3, 2), plain);
        expect_predicted_memory(made.engine());
        for (const zero::MemoryReport& row : made.engine().memory()) {
          EXPECT_TRUE(row.name != "compute_shard" || row.actual == 0);
        }
      }
    }
  }
}

TEST(OffloadWithCodecs, ChangesNoBit) {
  for (const int stage : {1, 2, 3}) {
    zero::Options options = deterministic(stage, Dtype::bf16);
    options.quantized_weights = true;
    options.quantized_gradients = true;
    options.weight_codec = codec::parse_codec("int6:64+sr");
    options.gradient_codec_intra = {"int8", 64, {}};
    options.gradient_codec_inter = {"int4", 64, {}};
    options.error_feedback.hops = zero::FeedbackHops::both;
    options.accumulation_steps = 2;
    options.reduce_bucket_size = 6000;
    if (stage == 3 && node_size_of_four() > 1) {
      options.hpz_partition_size = static_cast<std::size_t>(node_size_of_four());
    }
    const Outcome plain = EngineCase(options, node_size_of_four(), make_tiny_gpt).train(3);
    for (const auto& offload : offloads()) {
      SCOPED_TRACE(testing::Message() << "stage " << stage << ", pieces of " << offload.piece_size);
      options.offload_optimizer = offload;
      expect_same(EngineCase(options, node_size_of_four(), make_tiny_gpt).train(3), plain);
    }
  }
}

/// Beside shard groups, units that persist, and units that are kept until their next use.
TEST(OffloadWithLimits, ChangesNoBit) {
  const int nodes = node_size_of_four();
  for (const std::size_t group : {zero::kAllRanks, std::size_t{2}}) {
    if (group != zero::kAllRanks && world().size() < 4) continue;
    zero::Options options = deterministic(3, Dtype::bf16);
    options.shard_group_size = group;
    options.accumulation_steps = 2;
    options.model_persistence_threshold = options.persistence_threshold = 8000;  // one block's
    options.max_reuse_distance = 1'000'000'000;
    const Outcome plain = EngineCase(options, nodes, make_tiny_gpt).train(3, 2);
    std::vector<OfBoth> ways = offloads_of_both();
    ways.push_back({offloads()[2], {}});
    ways.push_back({offloads()[5], {}});
    for (const auto& [optimizer, param] : ways) {
      SCOPED_TRACE(testing::Message()
                   << "groups of " << group << ", optimizer " << enum_name(optimizer.device)
                   << ", parameters " << enum_name(param.device));
      options.offload_optimizer = optimizer;
      options.offload_param = param;
      EngineCase made(options, nodes, make_tiny_gpt);
      expect_same(made.train(3, 2), plain);
      expect_predicted_memory(made.engine());
    }
  }
}

TEST(OffloadedOptimizers, ChangeNoBit) {
  for (const optim::Options& optimizer : optimizer_cases()) {
    SCOPED_TRACE(describe(optimizer));
    zero::Options options = deterministic(3, Dtype::bf16);
    const Outcome plain = EngineCase(options, 0, make_tiny_gpt, 16, 2, optimizer).train(3);
    options.offload_optimizer = offloads().back();
    expect_same(EngineCase(options, 0, make_tiny_gpt, 16, 2, optimizer).train(3), plain);
  }
}

TEST(OffloadInFp16, SkipsWhatOverflows) {
  zero::Options options = deterministic(2, Dtype::fp16);
  options.loss_scale.initial_power = 24;
  options.loss_scale.hysteresis = 1;
  const Outcome plain = EngineCase(options, 0, make_tiny_gpt).train(12);
  EXPECT_GT(plain.skipped, 0U);
  EXPECT_LT(plain.skipped, 12U) << "no step is taken";
  options.offload_optimizer = offloads().back();
  const Outcome offloaded = EngineCase(options, 0, make_tiny_gpt).train(12);
  expect_same(offloaded, plain);
  EXPECT_EQ(offloaded.skipped, plain.skipped);
}

/// sub_group_size is what moves at a time: smaller pieces are more transfers through less memory.
TEST(OffloadToFiles, MovesSubGroups) {
  std::map<std::size_t, std::uint64_t> reads;
  std::map<std::size_t, std::size_t> staging;
  for (const std::size_t size : {1024U, 4096U}) {
    zero::Options options = deterministic(0, Dtype::bf16);
    options.offload_optimizer = offloads()[4];
    options.offload_optimizer.sub_group_size = size;
    EngineCase made(options, 0, make_tiny_gpt);
    made.step(0);
    auto& counters = made.recorder().counters;
    reads[size] = counters["file_reads"];
    EXPECT_EQ(counters["file_reads"], counters["file_writes"]);
    EXPECT_EQ(counters["file_bytes_read"], counters["file_bytes_written"]);
    EXPECT_GT(counters["file_bytes_read"], 0U);
    EXPECT_EQ(counters["files"], 1U);
    for (const zero::MemoryReport& row : made.engine().memory()) {
      if (row.name == "offloaded_staging") staging[size] = row.actual;
      EXPECT_TRUE(row.name != "offloaded_master" || row.actual == 0);
    }
  }
  EXPECT_GT(reads[1024], 2 * reads[4096]);
  EXPECT_LT(2 * staging[1024], staging[4096]);
}

/// Weights that a checkpoint or a file brings go through the same pieces.
TEST(OffloadedState, GoesOnFromAStateWithoutAndBack) {
  const auto go_on = [](const zero::Options& saves, const zero::Options& loads) {
    EngineCase first(saves, 0, make_tiny_gpt);
    for (std::uint64_t step = 0; step < 2; ++step) first.step(step);
    Buffer memory;
    std::map<std::string, std::vector<std::pair<checkpoint::Slice, std::vector<std::byte>>>> kept;
    for (const checkpoint::HostSlice& slice : first.engine().state(memory)) {
      kept[slice.slice.array].emplace_back(
          slice.slice, std::vector<std::byte>(slice.values.begin(), slice.values.end()));
    }
    EngineCase second(loads, 0, make_tiny_gpt);
    second.engine().restore({.steps = first.engine().steps()}, [&](const checkpoint::Slice& wanted,
                                                                   std::span<std::byte> values) {
      std::size_t found = 0;
      for (const auto& [slice, bytes] : kept.at(wanted.array)) {
        const std::uint64_t begin = std::max(slice.offset, wanted.offset);
        const std::uint64_t end =
            std::min(slice.offset + slice.count, wanted.offset + wanted.count);
        if (begin >= end) continue;
        std::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>(4 * (begin - slice.offset)),
                    4 * (end - begin),
                    values.begin() + static_cast<std::ptrdiff_t>(4 * (begin - wanted.offset)));
        found += end - begin;
      }
      EXPECT_EQ(found, wanted.count) << wanted.array;
    });
    for (std::uint64_t step = 2; step < 4; ++step) second.step(step);
    return second.engine().parameters_hash();
  };
  for (const int stage : {0, 2, 3}) {
    if (stage == 0 && world().size() > 1) continue;  // the other ranks' slices are not here
    for (const Dtype compute : {Dtype::fp32, Dtype::bf16}) {
      const zero::Options plain = deterministic(stage, compute);
      zero::Options offloaded = plain;
      offloaded.offload_optimizer = offloads()[2];
      zero::Options filed = plain;
      filed.offload_optimizer = offloads().back();
      const std::string expected = EngineCase(plain, 0, make_tiny_gpt).train(4).hash;
      for (std::size_t i = 0; stage == 3 && i < offloads_of_both().size(); i += 2) {
        zero::Options parameters = plain;
        parameters.offload_optimizer = offloads_of_both()[i].optimizer;
        parameters.offload_param = offloads_of_both()[i].param;
        EXPECT_EQ(go_on(plain, parameters), expected) << i;
        EXPECT_EQ(go_on(parameters, plain), expected) << i;
      }
      EXPECT_EQ(go_on(offloaded, filed), expected) << "stage " << stage;
      EXPECT_EQ(go_on(filed, filed), expected) << "stage " << stage;
      EXPECT_EQ(go_on(plain, offloaded), expected) << "stage " << stage;
      EXPECT_EQ(go_on(offloaded, plain), expected) << "stage " << stage;
      EXPECT_EQ(go_on(offloaded, offloaded), expected) << "stage " << stage;
    }
  }
}

}  // namespace
}  // namespace zeropp::test
