// ctest: name=optimizer_shard_moments timeout=60 labels=sanitize joined=no
// An optimizer's shards with moments of every kind: the same bits at any number of ranks, in pieces
// of any length, and bytes as the closed form has them.
#include <gtest/gtest.h>

#include <random>
#include <stdexcept>

#include "lib/zero/optimizer/optimizer_shard.hpp"
#include "lib/zero/plan/state_memory.hpp"

namespace zeropp::zero {
namespace {

using optim::Moments;

const std::vector<Unit>& units() {
  static const std::vector<Unit> made{
      layout_unit("first", {{.name = "a", .shape = {97, 13}, .init = {.constant = 0.5F}},
                            {.name = "b", .shape = {33}, .init = {.scale = 0.1F}, .decay = false}}),
      layout_unit("second", {{.name = "c", .shape = {5000}, .init = {.scale = 0.02F}},
                             {.name = "d", .shape = {1}, .init = {}}})};
  return made;
}

/// Flat buffers of both units, after some steps.
struct Result {
  std::vector<std::vector<float>> master, m, v;
  bool operator==(const Result&) const = default;
};

std::vector<float> gradient_of(std::size_t unit, std::uint64_t t, std::size_t padded) {
  std::mt19937 random(static_cast<unsigned>(100 * t + unit));
  std::normal_distribution<float> normal;
  std::vector<float> made(units()[unit].count);
  for (float& value : made) value = normal(random);
  made.resize(padded);  // the same elements at any number of ranks
  return made;
}

/// Some steps of all ranks; ranges end at multiples of `range` elements.
Result train(Moments moments, std::size_t ranks, std::size_t range) {
  const optim::Options options{
      .type = "AdamW", .learning_rate = 0.01, .weight_decay = 0.1, .moments = moments};
  const auto partitions =
      partition_units(units(), ranks, 1, Dtype::fp32, 1, optim::moment_alignment(moments));
  const std::vector<Unit> model = units();
  const Device host = Device::host();
  Result result;
  for (std::size_t u = 0; u < units().size(); ++u) {
    result.master.emplace_back();
    result.m.emplace_back();
    result.v.emplace_back();
  }
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    std::vector<std::vector<float>> gradients;
    std::vector<UnitArrays> arrays;
    for (const UnitPartition& unit : partitions) {
      std::vector<float>& gradient = gradients.emplace_back(unit.shard);
      UnitArrays& made = arrays.emplace_back(UnitArrays{{0, unit.shard}, {}});
      for (std::size_t first = 0; first < unit.shard; first += range) {
        const std::size_t n = std::min(range, unit.shard - first);
        made.ranges.push_back({View::of(gradient.data() + first, n), View()});
      }
    }
    const OptimizerShard shard({.units = model,
                                .partitions = partitions,
                                .owned = {true, rank},
                                .seed = 7,
                                .options = options},
                               arrays, {.device = host, .memory = MemoryKind::host, .stream = {}});
    for (std::uint64_t t = 1; t <= 4; ++t) {
      for (std::size_t u = 0; u < units().size(); ++u) {
        const std::vector<float> whole = gradient_of(u, t, partitions[u].padded);
        std::copy_n(whole.begin() + static_cast<std::ptrdiff_t>(rank * partitions[u].shard),
                    partitions[u].shard, gradients[u].begin());
        shard.update(u, t, 0.5F, 0.9, {});
      }
    }
    std::size_t state_bytes = 0;
    for (std::size_t u = 0; u < units().size(); ++u) {
      const std::size_t n = partitions[u].shard;
      state_bytes += shard.kept().bytes(n);
      const auto* const master = shard.master(u).as<float>();
      result.master[u].insert(result.master[u].end(), master, master + n);
      for (std::size_t s = 0; s < 2; ++s) {
        const KeptMoment moment = shard.moment(u, s);
        std::vector<float> wide(n);
        optim::widen_moments(moments, shard.is_signed(s), n, moment.values, moment.scales,
                             wide.data());
        auto& all = s == 0 ? result.m[u] : result.v[u];
        all.insert(all.end(), wide.begin(), wide.end());
      }
    }
    EXPECT_EQ(shard.state_bytes(), state_bytes);
  }
  for (auto* const of : {&result.master, &result.m, &result.v}) {
    for (std::size_t u = 0; u < units().size(); ++u) (*of)[u].resize(units()[u].count);
  }
  return result;
}

TEST(ShardMoments, HaveTheSameBitsAtAnyNumberOfRanksAndInAnyRanges) {
  for (const Moments moments : {Moments::fp32, Moments::bf16, Moments::int8}) {
    const Result one = train(moments, 1, std::size_t{1} << 30U);
    for (const std::size_t ranks : {1U, 2U, 3U, 7U}) {
      for (const std::size_t range : {64U, 704U}) {
        EXPECT_TRUE(train(moments, ranks, range) == one)
            << enum_name(moments) << ": " << ranks << " ranks, " << range;
      }
    }
  }
}

TEST(ShardMoments, AreNotThoseOfFp32) {
  const Result wide = train(Moments::fp32, 1, 64);
  for (const Moments moments : {Moments::bf16, Moments::int8}) {
    const Result got = train(moments, 1, 64);
    EXPECT_NE(got.m, wide.m);
    EXPECT_NE(got.v, wide.v);
    for (std::size_t i = 0; i < wide.master[0].size(); ++i) {
      EXPECT_NEAR(got.master[0][i], wide.master[0][i], 0.01) << i;
    }
  }
}

TEST(ShardMoments, BytesFollowTheClosedForm) {
  for (const Moments moments : {Moments::fp32, Moments::bf16, Moments::int8}) {
    const auto partitions =
        partition_units(units(), 3, 1, Dtype::bf16, 1, optim::moment_alignment(moments));
    std::size_t elements = 0;
    for (const UnitPartition& unit : partitions) elements += unit.shard;
    const auto parts =
        state_memory(partitions, stage_preset(3), Dtype::bf16, optim::Kept(2, moments));
    EXPECT_EQ(parts[1].name, "moments");
    const std::size_t scales = moments == Moments::int8 ? elements / 64 * 4 : 0;
    const std::size_t each = moments == Moments::fp32 ? 4 : moments == Moments::bf16 ? 2 : 1;
    EXPECT_EQ(parts[1].bytes, 2 * (each * elements + scales));
  }
}

/// Parts that end within a block would share its scale with another rank.
TEST(ShardMoments, InEightBitsNeedWholeBlocks) {
  const optim::Options options{.moments = Moments::int8};
  const auto partitions = partition_units(units(), 7, 1, Dtype::fp32);
  ASSERT_NE(partitions[1].shard % optim::kMomentBlock, 0U);
  std::vector<UnitArrays> arrays;
  for (const UnitPartition& unit : partitions) arrays.push_back({{0, unit.shard}, {}});
  const std::vector<Unit> model = units();
  const Device host = Device::host();
  const OptimizerSetup setup{
      .units = model, .partitions = partitions, .owned = {true, 0}, .seed = 7, .options = options};
  const ShardPlace place{.device = host, .memory = MemoryKind::host, .stream = {}};
  EXPECT_THROW(OptimizerShard(setup, arrays, place), std::invalid_argument);
}

}  // namespace
}  // namespace zeropp::zero
