// ctest: name=contract3_shard_groups np=4 cuda=mpi,nccl timeout=240 labels=sanitize
// MiCS and hybrid sharding: everything is sharded inside a shard group and the same in all of them.
// Every rank sees the same weights, whatever the codecs. In fp32 and with one micro-step per step,
// the parameters equal stage 3 with a reduction in two levels, bit for bit; with several
// micro-steps they differ by the order of additions. Memory follows the size of the groups, a
// skipped step has no effect, and gradients cross groups once per step.
#include <gtest/gtest.h>

#include <array>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/sha256.hpp"
#include "tests/support/engine_case.hpp"
#include "tests/support/on_device.hpp"
#include "tests/support/planted_model.hpp"

namespace zeropp::test {
namespace {

/// Node size and shard group size, of a world of 4 ranks: a node, a part of one, two nodes.
constexpr std::array<std::pair<int, std::size_t>, 3> kGroupings{{{2, 2}, {4, 2}, {1, 2}}};

/// A model that remembers what weights it saw.
class WatchedModel final : public WrappedModel {
 public:
  using WrappedModel::WrappedModel;

  void forward(std::size_t layer, std::span<const ConstView> weights,
               StreamHandle stream) override {
    for (const ConstView& view : weights) {
      std::vector<std::byte> bytes(view.bytes());
      device().memory_ops->copy(view, {bytes.data(), view.count, view.dtype}, stream);
      device().runtime->synchronize(stream.native);
      seen.update(bytes);
    }
    WrappedModel::forward(layer, weights, stream);
  }

  Sha256 seen;
};

/// Options that turn on everything that ranks may differ in; 4 ranks in two groups.
zero::Options compressed(std::size_t group) {
  zero::Options options;
  options.shard_group_size = group;
  options.quantized_gradients = true;
  options.gradient_codec_intra = {"int8", 64, {}};
  options.gradient_codec_inter = codec::parse_codec("int4:64+sr");
  options.reduce_bucket_size = 6000;
  options.accumulation_steps = 2;
  options.error_feedback.hops = zero::FeedbackHops::both;
  options.error_feedback.beta = 0.5;
  return options;
}

TEST(ShardGroups, HoldTheSameParameters) {
  if (world().size() < 4) GTEST_SKIP() << "needs two groups of two ranks";
  for (const auto& [node_size, group] : kGroupings) {
    for (const bool quantized : {false, true}) {
      zero::Options options = compressed(group);
      if (!quantized) {
        options.quantized_gradients = false;
        options.error_feedback.hops = zero::FeedbackHops::none;
      }
      WatchedModel* model = nullptr;
      EngineCase made(options, node_size, [&](const model::Context& context) {
        auto watched = std::make_unique<WatchedModel>(make_tiny_gpt(context));
        model = watched.get();
        return watched;
      });
      made.train(3);
      const std::string seen = model->seen.hex();
      EXPECT_EQ(seen, world().control().broadcast(seen))
          << "node size " << node_size << ", group " << group << ", quantized " << quantized;
    }
  }
}

TEST(ShardGroups, AddAsTwoLevelsDo) {
  if (world().size() < 4) GTEST_SKIP() << "needs two groups of two ranks";
  for (const bool tied : {false, true}) {
    zero::Options options;
    options.deterministic = true;
    options.gradient_clipping = 0.05;  // in effect in every step
    options.reduce_bucket_size = 6000;
    options.reduce_scatter_algorithm = "2-hop";
    const auto make = [&](const model::Context& context) {
      return make_tiny("gpt", context, tied);
    };
    const Outcome whole = EngineCase(options, 2, make).train(4);
    options.shard_group_size = 2;
    options.reduce_scatter_algorithm = "ordered";
    const Outcome grouped = EngineCase(options, 2, make).train(4);
    EXPECT_EQ(grouped.hash, whole.hash);
    EXPECT_EQ(grouped.norms, whole.norms);
    EXPECT_EQ(grouped.losses, whole.losses);
    EXPECT_LT(grouped.sent.inter, whole.sent.inter) << "weights stay inside a group";
  }
}

TEST(ShardGroups, AgreeWithStage3ToTolerance) {
  if (world().size() < 4) GTEST_SKIP() << "needs two groups of two ranks";
  for (const Dtype compute : {Dtype::fp32, Dtype::bf16, Dtype::fp16}) {
    zero::Options options;
    options.deterministic = true;
    options.compute = compute;
    options.accumulation_steps = 3;
    options.loss_scale.fixed = 256;  // sums over a group and micro-steps travel in fp16
    const Outcome whole = EngineCase(options, 2, make_tiny_gpt).train(3);
    for (const auto& [node_size, group] : kGroupings) {
      zero::Options grouped = options;
      grouped.shard_group_size = group;
      const Outcome outcome = EngineCase(grouped, node_size, make_tiny_gpt).train(3);
      EXPECT_NE(outcome.hash, whole.hash) << "the order of additions is another";
      for (std::size_t step = 0; step < whole.losses.size(); ++step) {
        const double tolerance = compute == Dtype::fp32 ? 1e-5 : 2e-2;
        EXPECT_NEAR(outcome.norms[step] / whole.norms[step], 1, tolerance) << name_of(compute);
        EXPECT_NEAR(outcome.losses[step] / whole.losses[step], 1, tolerance) << name_of(compute);
      }
      EXPECT_EQ(EngineCase(grouped, node_size, make_tiny_gpt).train(3).hash, outcome.hash)
          << "run again";
    }
  }
}

TEST(ShardGroups, OfAllRanksAreStage3) {
  zero::Options options;
  options.deterministic = true;
  const std::string whole = EngineCase(options, world().size(), make_tiny_gpt).train(2).hash;
  options.shard_group_size = static_cast<std::size_t>(world().size());
  EngineCase grouped(options, world().size(), make_tiny_gpt);
  EXPECT_EQ(grouped.train(2).hash, whole);
  EXPECT_EQ(grouped.groups().shards, nullptr);
}

TEST(ShardGroups, TakeTheMemoryOfTheirSize) {
  if (world().size() < 4) GTEST_SKIP() << "needs two groups of two ranks";
  const auto memory = [](const zero::Options& options) {
    std::map<std::string, std::size_t> parts;
    EngineCase made(options, 2, make_tiny_gpt);
    made.step(0);
    for (const zero::MemoryReport& part : made.engine().memory()) {
      EXPECT_EQ(part.actual, part.predicted) << part.name;
      parts[part.name] = part.actual;
    }
    return parts;
  };
  zero::Options options = compressed(2);
  options.compute = Dtype::bf16;
  const auto grouped = memory(options);
  options.shard_group_size = zero::kAllRanks;
  const auto whole = memory(options);
  for (const char* part : {"master", "moments", "gradient_shard"}) {
    EXPECT_EQ(grouped.at(part), 2 * whole.at(part)) << part;
  }
  EXPECT_GT(grouped.at("error_feedback_across"), 0U);
  EXPECT_EQ(grouped.count("error_feedback_inter"), 0U) << "a group is inside a node";
}

TEST(ShardGroups, SendGradientsAcrossOnceAStep) {
  if (world().size() < 4) GTEST_SKIP() << "needs two groups of two ranks";
  const auto across = [](std::size_t micro_steps, const char* codec) {
    zero::Options options = compressed(2);
    options.error_feedback.hops = zero::FeedbackHops::none;
    options.gradient_codec_inter = codec::parse_codec(codec);
    options.accumulation_steps = micro_steps;
    options.compute = Dtype::bf16;
    EngineCase made(options, 2, make_tiny_gpt);
    return made.train(1).sent.inter;
  };
  const std::uint64_t sixteen_bits = across(1, "bf16");
  EXPECT_EQ(across(4, "bf16"), sixteen_bits);
  EXPECT_LT(static_cast<double>(across(1, "int4:128")), 0.3 * static_cast<double>(sixteen_bits));
}

TEST(ShardGroups, SkippedStepLeavesNoTrace) {
  if (world().size() < 4) GTEST_SKIP() << "needs two groups of two ranks";
  const zero::Options options = compressed(2);
  PlantedModel* planted_model = nullptr;
  const auto make = [&](PlantedModel*& model) {
    return [&](const model::Context& context) {
      auto made = std::make_unique<PlantedModel>(make_tiny("gpt", context, false), Plants{},
                                                 options.accumulation_steps);
      model = made.get();
      return made;
    };
  };
  EngineCase planted(options, 2, make(planted_model));
  planted_model->plants[2] = {.value = std::numeric_limits<float>::quiet_NaN(), .rank = 3};
  KeptErrors before;
  for (const std::uint64_t step : {0, 1, 2, 3}) {
    EXPECT_EQ(planted.step(step).skipped, step == 2) << "step " << step;
    const KeptErrors errors = planted.errors();
    EXPECT_EQ(errors == before, step == 2) << "step " << step;
    before = errors;
  }
  EXPECT_TRUE(before.contains("error_feedback.across.reduce.0"));
  EXPECT_TRUE(before.contains("error_feedback.across.gather.0"));
}

TEST(ShardGroups, SeeASumThatLeavesTheRangeOfFp16) {
  if (world().size() < 4) GTEST_SKIP() << "needs two groups of two ranks";
  zero::Options options;
  options.shard_group_size = 2;
  options.compute = Dtype::fp16;
  options.loss_scale.fixed = 1;
  PlantedModel* model = nullptr;
  EngineCase made(options, 2, [&](const model::Context& context) {
    auto planted = std::make_unique<PlantedModel>(make_tiny("gpt", context, false), Plants{});
    model = planted.get();
    return planted;
  });
  // Gradients of one rank, and the sum of a group, are within 65504; the sum over groups is not.
  model->plants[1] = {.value = 20000};
  EXPECT_FALSE(made.step(0).skipped);
  EXPECT_TRUE(made.step(1).skipped);
  EXPECT_FALSE(made.step(2).skipped);
}

}  // namespace
}  // namespace zeropp::test
