// ctest: name=zero_offload_plan timeout=60 labels=sanitize
// Parts of an optimizer and of weights on the host or in files: the elements, the pieces, and the
// memory for their transfers.
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "lib/zero/plan/offload_plan.hpp"
#include "lib/zero/plan/state_memory.hpp"

namespace zeropp::zero {
namespace {

OffloadOptimizerOptions offload(double ratio, std::size_t piece, std::size_t buffers) {
  return {
      .device = OffloadDevice::cpu, .buffer_count = buffers, .ratio = ratio, .piece_size = piece};
}

TEST(OffloadedElements, AreTheShareThatWasAskedFor) {
  EXPECT_EQ(offloaded_elements(1000, {}), 0U) << "nothing without offload";
  EXPECT_EQ(offloaded_elements(1000, offload(1, 64, 1)), 1000U);
  EXPECT_EQ(offloaded_elements(1000, offload(0, 64, 1)), 0U);
  EXPECT_EQ(offloaded_elements(1000, offload(0.5, 64, 1)), 512U);  // 500, on a boundary
  EXPECT_EQ(offloaded_elements(1000, offload(0.999, 64, 1)), 1000U);
  EXPECT_EQ(offloaded_elements(8, offload(0.1, 64, 1)), 0U);
  for (const std::size_t n : {4U, 100U, 4096U, 1'000'003U}) {
    for (double ratio = 0; ratio <= 1; ratio += 0.125) {
      const auto elements = static_cast<double>(offloaded_elements(n, offload(ratio, 64, 1)));
      EXPECT_GE(elements, std::floor(ratio * static_cast<double>(n)));
      EXPECT_LT(elements, ratio * static_cast<double>(n) + 64);
    }
  }
}

TEST(OffloadPieces, CoverTheOffloadedElementsInOrder) {
  for (const double ratio : {0.3, 1.0}) {
    const auto options = offload(ratio, 100, 4);
    const std::vector<std::size_t> counts{1000, 4, 100, 101};
    const auto pieces = offload_pieces(counts, options);
    std::size_t at = 0;
    for (std::size_t unit = 0; unit < counts.size(); ++unit) {
      std::size_t end = 0;
      std::size_t range = 0;
      for (; at < pieces.size() && pieces[at].unit == unit; ++at) {
        EXPECT_EQ(pieces[at].range, range++);
        EXPECT_EQ(pieces[at].extent.begin, end);
        EXPECT_GT(pieces[at].extent.count, 0U);
        EXPECT_LE(pieces[at].extent.count, 100U);
        end += pieces[at].extent.count;
      }
      EXPECT_EQ(end, offloaded_elements(counts[unit], options));
    }
    EXPECT_EQ(at, pieces.size());
  }
}

TEST(OffloadStaging, HasNoMoreThanThePiecesNeed) {
  const auto staging = [](std::size_t piece, std::size_t buffers, Dtype compute = Dtype::fp32,
                          const OffloadParamOptions& param = {}, double ratio = 1) {
    const auto options = offload(ratio, piece, buffers);
    return offload_staging(offload_pieces({1000, 300}, options), compute, 2, {false, false},
                           options, param);
  };
  EXPECT_EQ(staging(1 << 20, 4).buffers, 2U);
  EXPECT_EQ(staging(1 << 20, 4).elements, 1000U);
  EXPECT_EQ(staging(128, 4).buffers, 4U);
  EXPECT_EQ(staging(128, 4, Dtype::bf16).bytes(), 4U * 128 * (4 + 2));
  EXPECT_EQ(staging(128, 4, Dtype::bf16, {.device = OffloadDevice::cpu}).bytes(), 4U * 128 * 4);
  EXPECT_EQ(staging(128, 4).bytes(), 4U * 128 * 4);
  EXPECT_EQ(staging(128, 4, Dtype::fp32, {}, 0).bytes(), 0U);
}

/// Arrays and weights that travel to files do so in whole pages.
TEST(OffloadStaging, HasRecordsOfFiles) {
  auto options = offload(1, 1 << 20, 3);
  options.device = OffloadDevice::nvme;
  options.sub_group_size = 1500;
  const auto pieces = offload_pieces({4000, 10}, options);
  ASSERT_EQ(pieces.size(), 4U);
  EXPECT_EQ(pieces[2].extent.count, 1000U);
  const OffloadParamOptions param{.device = OffloadDevice::nvme, .max_in_cpu = 0};
  const auto staging = [&](const std::vector<bool>& on_file) {
    return offload_staging(pieces, Dtype::bf16, 2, on_file, options, param);
  };
  EXPECT_EQ(staging({true, true}).bytes(), 3U * (1500 * 4 + 3 * 8192 + 4096));
  EXPECT_EQ(staging({false, false}).bytes(), 3U * (1500 * 4 + 3 * 8192)) << "they stay on the host";
  EXPECT_EQ(optimizer_layout(pieces, 2).begin,
            (std::vector<std::uint64_t>{0, 3 * 8192, 6 * 8192, 6 * 8192 + 3 * 4096}));
  EXPECT_EQ(optimizer_layout(pieces, 2).bytes, 6U * 8192 + 6 * 4096);
  // In 8 bits a moment of 1500 elements takes 1596 bytes, and one of 10 takes 14.
  EXPECT_EQ(optimizer_layout(pieces, {2, optim::Moments::int8}).bytes,
            2U * (8192 + 2 * 4096) + 2 * (4096 + 2 * 4096));
  EXPECT_EQ(weights_layout(pieces, {false, true}, Dtype::bf16).bytes, 4096U);
  EXPECT_EQ(weight_buffers(pieces, {true, true}, Dtype::bf16, param).bytes, 3U * 4096);
  EXPECT_EQ(weight_buffers(pieces, {true, true}, Dtype::bf16, param).buffers, 2U);
  EXPECT_EQ(weight_buffers(pieces, {false, false}, Dtype::bf16, param).buffers, 0U);
}

TEST(WeightsOnFile, BeginWhereTheHostMayHoldNoMore) {
  const std::vector<UnitPartition> units{{1000, 1024, 256, 1024, 0}, {500, 512, 128, 512, 0}};
  const auto on_file = [&](std::size_t most) {
    return weights_on_file(units, {.device = OffloadDevice::nvme, .max_in_cpu = most});
  };
  EXPECT_EQ(on_file(0), (std::vector{true, true}));
  EXPECT_EQ(on_file(255), (std::vector{true, true}));
  EXPECT_EQ(on_file(383), (std::vector{false, true}));
  EXPECT_EQ(on_file(384), (std::vector{false, false}));
  EXPECT_EQ(weights_on_file(units, {.device = OffloadDevice::cpu, .max_in_cpu = 0}),
            (std::vector{false, false}));
}

TEST(OffloadMemory, MovesToTheHost) {
  const std::vector<UnitPartition> units{{1000, 1024, 256, 1024, 0}, {500, 512, 128, 512, 0}};
  const auto bytes = [&](int stage, const OffloadOptimizerOptions& options, Dtype compute) {
    std::map<std::string, std::size_t> by_name;
    for (const MemoryPart& part : state_memory(units, stage_preset(stage), compute, 2, options)) {
      EXPECT_EQ(is_offloaded(part.name), part.name.starts_with("offloaded"));
      by_name[part.name] = part.bytes;
    }
    return by_name;
  };
  auto all = bytes(3, offload(1, 100, 2), Dtype::bf16);
  EXPECT_EQ(all["master"] + all["moments"], 0U);
  EXPECT_EQ(all["offloaded_master"], 384U * 4);
  EXPECT_EQ(all["offloaded_moments"], 384U * 8);
  EXPECT_EQ(all["offloaded_staging"], 2U * 100 * 6);
  EXPECT_EQ(all["compute_shard"], 384U * 2);
  auto half = bytes(3, offload(0.5, 1000, 9), Dtype::fp32);
  EXPECT_EQ(half["master"], (128U + 64U) * 4);
  EXPECT_EQ(half["offloaded_master"], (128U + 64U) * 4);
  EXPECT_EQ(half["offloaded_staging"], 2U * 128 * 4);
  EXPECT_EQ(half["compute_shard"], 384U * 4) << "the master is no longer what is gathered";
  EXPECT_EQ(bytes(0, offload(1, 100, 2), Dtype::bf16)["offloaded_master"], 1536U * 4);
  EXPECT_EQ(bytes(3, {}, Dtype::fp32).count("offloaded_master"), 0U);
  EXPECT_EQ(bytes(3, {}, Dtype::bf16)["compute_shard"], 0U) << "the master is what is gathered";
}

TEST(OffloadedParameters, MoveToTheHostToo) {
  const std::vector<UnitPartition> units{{1000, 1024, 256, 1024, 0}, {500, 512, 128, 512, 0}};
  Options options;
  options.offload_optimizer = offload(1, 100, 2);
  EXPECT_EQ(upload_bytes(units[0], options), 0U);
  options.offload_param.device = OffloadDevice::cpu;
  options.compute = Dtype::bf16;
  EXPECT_EQ(upload_bytes(units[0], options), 512U);
  EXPECT_EQ(upload_bytes({1000, 1024, 130, 0, 0}, options), 512U) << "260, on a boundary";
  for (const Dtype compute : {Dtype::fp32, Dtype::bf16}) {
    std::map<std::string, std::size_t> bytes;
    for (const MemoryPart& part : state_memory(units, stage_preset(3), compute, 2,
                                               options.offload_optimizer, options.offload_param)) {
      bytes[part.name] = part.bytes;
    }
    EXPECT_EQ(bytes["compute_shard"], 0U);
    EXPECT_EQ(bytes["offloaded_weights"], compute == Dtype::fp32 ? 0 : 384U * 2);
    EXPECT_EQ(bytes["offloaded_staging"], 2U * 100 * 4);
  }
}

}  // namespace
}  // namespace zeropp::zero
