// ctest: name=contract3_moments np=1,4 cuda=mpi,nccl timeout=240 labels=sanitize
// Training with moments in bf16 and in 8 bits: the same bits at stages 0 to 3, offloaded and not;
// memory as predicted; losses close to the losses with moments in fp32; a saved state resumes with
// the same bits.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <utility>

#include "tests/support/engine_case.hpp"
#include "tests/support/optimizer_reference.hpp"

namespace zeropp::test {
namespace {

using optim::Moments;

zero::Options moments_stage(int stage, Dtype compute) {
  zero::Options options;
  options.deterministic = true;
  options.stage = stage;
  options.compute = compute;
  options.gradient_clipping = 0.5;
  return options;
}

optim::Options with_moments(Moments moments) {
  return {.learning_rate = 2e-3, .weight_decay = 0.1, .moments = moments};
}

class MomentsOf : public testing::TestWithParam<std::tuple<Moments, Dtype>> {
 protected:
  static EngineCase made(const zero::Options& options, Moments moments) {
    return {options, node_size_of_four(), make_tiny_gpt,
            kLength, kSequences,          with_moments(moments)};
  }
};

TEST_P(MomentsOf, GiveTheSameParametersAtEveryStageAndOffloaded) {
  const auto [moments, compute] = GetParam();
  const std::string expected = made(moments_stage(3, compute), moments).train(4).hash;
  for (const int stage : {0, 1, 2}) {
    EXPECT_EQ(made(moments_stage(stage, compute), moments).train(4).hash, expected)
        << "stage " << stage;
  }
  const std::string folder = std::filesystem::temp_directory_path().string();
  for (const auto& [device, ratio] : {std::pair{zero::OffloadDevice::cpu, 0.3},
                                      {zero::OffloadDevice::cpu, 1.0},
                                      {zero::OffloadDevice::nvme, 0.7}}) {
    zero::Options options = moments_stage(3, compute);
    options.offload_optimizer = {
        .device = device, .nvme_path = folder, .ratio = ratio, .piece_size = 1024};
    EngineCase offloaded = made(options, moments);
    EXPECT_EQ(offloaded.train(4).hash, expected) << enum_name(device) << ", ratio " << ratio;
    for (const zero::MemoryReport& row : offloaded.engine().memory()) {
      EXPECT_EQ(row.actual, row.predicted) << row.name;
    }
  }
}

TEST_P(MomentsOf, TakeThePredictedMemory) {
  const auto [moments, compute] = GetParam();
  const auto bytes = [compute = compute](Moments of) {
    EngineCase engine_case = made(moments_stage(2, compute), of);
    for (const zero::MemoryReport& row : engine_case.engine().memory()) {
      if (row.name != "moments") continue;
      EXPECT_EQ(row.actual, row.predicted);
      return static_cast<double>(row.actual);
    }
    return 0.0;
  };
  // Shards in 8 bits are longer, by less than 64 elements a unit and rank.
  const double share = moments == Moments::bf16 ? 2.0 / 4 : (1.0 + 4.0 / 64) / 4;
  EXPECT_GE(bytes(moments), share * bytes(Moments::fp32));
  EXPECT_LE(bytes(moments), 1.05 * share * bytes(Moments::fp32));
}

/// Over sixty steps, in which the loss falls by a quarter of a nat.
TEST_P(MomentsOf, TrainAsThoseOfFp32Do) {
  const auto [moments, compute] = GetParam();
  const auto train = [compute = compute](Moments of) {
    zero::Options options = moments_stage(3, compute);
    options.gradient_clipping = 0;
    return made(options, of).train(60);
  };
  const Outcome wide = train(Moments::fp32);
  const Outcome narrow = train(moments);
  EXPECT_NE(narrow.hash, wide.hash);
  for (std::size_t step = 0; step < wide.losses.size(); ++step) {
    EXPECT_NEAR(narrow.losses[step], wide.losses[step], 0.01) << step;
  }
  EXPECT_LT(wide.losses.back(), wide.losses.front() - 0.25);
}

TEST_P(MomentsOf, GoOnFromAStateWithItsBits) {
  const auto [moments, compute] = GetParam();
  const zero::Options options = moments_stage(3, compute);
  const std::string expected = made(options, moments).train(5).hash;
  EngineCase first = made(options, moments);
  for (std::uint64_t step = 0; step < 3; ++step) first.step(step);
  Buffer memory;
  std::map<std::string, std::vector<std::byte>> kept;
  for (const checkpoint::HostSlice& slice : first.engine().state(memory)) {
    kept[slice.slice.array].assign(slice.values.begin(), slice.values.end());
  }
  EngineCase second = made(options, moments);
  EXPECT_TRUE(second.engine()
                  .restore(
                      {.steps = first.engine().steps()},
                      [&](const checkpoint::Slice& wanted, std::span<std::byte> values) {
                        ASSERT_EQ(kept.at(wanted.array).size(), values.size()) << wanted.array;
                        std::ranges::copy(kept.at(wanted.array), values.begin());
                      },
                      [&](const checkpoint::Slice& wanted) { return kept.contains(wanted.array); })
                  .moments);
  for (std::uint64_t step = 3; step < 5; ++step) second.step(step);
  EXPECT_EQ(second.engine().parameters_hash(), expected);
}

INSTANTIATE_TEST_SUITE_P(Kinds, MomentsOf,
                         testing::Combine(testing::Values(Moments::bf16, Moments::int8),
                                          testing::Values(Dtype::fp32, Dtype::bf16)),
                         [](const auto& of) {
                           return std::string(enum_name(std::get<0>(of.param))) + "In" +
                                  std::string(name_of(std::get<1>(of.param)));
                         });

}  // namespace
}  // namespace zeropp::test
