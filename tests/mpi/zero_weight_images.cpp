// ctest: name=zero_weight_images np=1,3,4,6 cuda=mpi,nccl timeout=240 labels=sanitize
// Kept images of weights: the parameters, losses, norms and bytes of training without them,
// bit for bit, with every kind of codec, with what changes codecs or weights between gathers, and
// with what else reads the weights; the memory is what the closed form says. And what updates write
// for refreshes to send.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "lib/zero/plan/weight_image_memory.hpp"
#include "tests/support/engine_case.hpp"
#include "tests/support/planted_model.hpp"

namespace zeropp::test {
namespace {

using codec::parse_codec;
using optim::Moments;

constexpr std::size_t kNoBadStep = std::numeric_limits<std::size_t>::max();

zero::Options image_options(const char* codec = "int8:64") {
  zero::Options options;
  options.quantized_weights = true;
  options.weight_codec = parse_codec(codec);
  options.compute = Dtype::bf16;
  options.deterministic = true;
  options.reduce_bucket_size = 9'000;
  return options;
}

zero::Options keeping_images(zero::Options options) {
  options.keep_weight_images = true;
  return options;
}

/// `bad_step`: in which the last rank's gradient is no number.
struct ImageCase : EngineCase {
  explicit ImageCase(const zero::Options& options, std::size_t bad_step = kNoBadStep,
                     optim::Options optimizer = {.learning_rate = 2e-3, .weight_decay = 0.1})
      : EngineCase(
            options, node_size_of_four(),
            [bad_step](const model::Context& context) {
              const Plant nan{.value = std::numeric_limits<float>::quiet_NaN(),
                              .rank = world().size() - 1};
              return std::make_unique<PlantedModel>(make_tiny_gpt(context),
                                                    Plants{{bad_step, nan}});
            },
            kLength, kSequences, std::move(optimizer)) {}
};

/// Bytes of the part of this name; 0 where there is none.
std::size_t memory_of(ImageCase& made, const char* name) {
  std::size_t bytes = 0;
  for (const zero::MemoryReport& row : made.engine().memory()) {
    EXPECT_EQ(row.actual, row.predicted) << row.name;
    if (row.name == name) bytes = row.actual;
  }
  return bytes;
}

std::size_t image_bytes(ImageCase& made) { return memory_of(made, zero::kWeightImages); }
std::size_t table_bytes(ImageCase& made) { return memory_of(made, zero::kWeightImageTables); }

/// Trains with images and without; evaluations lie between steps.
void expect_training_without_images(const zero::Options& options, std::size_t bad_step = kNoBadStep,
                                    const optim::Options& optimizer = {.learning_rate = 2e-3,
                                                                       .weight_decay = 0.1}) {
  ImageCase without(options, bad_step, optimizer);
  ImageCase with(keeping_images(options), bad_step, optimizer);
  const Outcome expected = without.train(5, 2);
  const Outcome outcome = with.train(5, 2);
  EXPECT_EQ(outcome.hash, expected.hash);
  EXPECT_EQ(outcome.losses, expected.losses);
  EXPECT_EQ(outcome.skipped, expected.skipped);
  EXPECT_EQ(outcome.skipped, bad_step == kNoBadStep ? 0U : 1U);
  if (bad_step == kNoBadStep) {
    EXPECT_EQ(outcome.norms, expected.norms);
  }
  EXPECT_EQ(outcome.sent, expected.sent);
  EXPECT_EQ(outcome.secondary_gathers, expected.secondary_gathers);
  EXPECT_EQ(image_bytes(without), 0U);
  EXPECT_GT(image_bytes(with), 0U);
}

TEST(WeightImages, GiveTheSameTrainingWithEveryKindOfCodec) {
  for (const char* codec : {"int8:256", "int8:32", "int4:64", "int8:1024", "int8:64+sr",
                            "int4:32+had32+sr", "int6:64+asym", "fp8e4m3:32", "nvfp4", "bf16"}) {
    SCOPED_TRACE(codec);
    expect_training_without_images(image_options(codec));
  }
}

TEST(WeightImages, GiveItInEveryDtypeWithMicroStepsAndChunks) {
  for (const Dtype compute : {Dtype::fp32, Dtype::bf16, Dtype::fp16}) {
    for (const std::size_t depth : {1U, 3U}) {
      SCOPED_TRACE(std::string(name_of(compute)) + " depth " + std::to_string(depth));
      zero::Options options = image_options("int4:32");
      options.compute = compute;
      options.accumulation_steps = 2;
      options.pipeline_depth = depth;
      options.loss_scale.fixed = 1;
      expect_training_without_images(options);
      options.overlap_comm = false;
      expect_training_without_images(options);
    }
  }
}

TEST(WeightImages, GiveItForEveryAlgorithm) {
  for (const char* algorithm : {"flat", "direct", "native-images", "two-level"}) {
    SCOPED_TRACE(algorithm);
    zero::Options options = image_options();
    options.all_gather_algorithm = algorithm;
    options.pipeline_depth = 2;
    expect_training_without_images(options);
  }
}

/// Updates write the images of some codecs themselves; other images are encoded after the update.
/// The first gathers find no images.
TEST(WeightImages, AreCountedByWhatMadeThem) {
  constexpr std::uint64_t kTaken = 4;
  for (const auto& [codec, type, fused] :
       {std::tuple{"int8:64", "AdamW", true}, std::tuple{"int8:64+sr", "AdamW", false},
        std::tuple{"int8:64", "Lion", false}}) {
    SCOPED_TRACE(std::string(codec) + " " + type);
    ImageCase made(keeping_images(image_options(codec)), kNoBadStep, {.type = type});
    made.train(kTaken, 2);
    const std::size_t units = made.engine().plan().input.units.size();
    auto& counters = made.recorder().counters;
    EXPECT_EQ(counters["weight_images_by_updates"], fused ? units * kTaken : 0U);
    EXPECT_EQ(counters["weight_images_encoded"], units * (fused ? 1 : 1 + kTaken));
    EXPECT_EQ(table_bytes(made) > 0, fused);
  }
}

TEST(WeightImages, GiveItAfterASkippedStep) {
  for (const std::size_t bad : {0U, 2U})
    expect_training_without_images(image_options("int8:64+sr"), bad);
}

TEST(WeightImages, GiveItWithHpzAndQgz) {
  if (world().size() == 1) return;  // no group to partition in
  zero::Options options = image_options();
  options.hpz_partition_size = static_cast<std::size_t>(node_size_of_four());
  options.quantized_gradients = true;
  options.accumulation_steps = 2;
  expect_training_without_images(options);
  options.hpz_device = zero::HpzDevice::cpu;
  expect_training_without_images(options);
}

TEST(WeightImages, GiveItInShardGroups) {
  if (world().size() % 2 != 0) return;
  zero::Options options = image_options();
  options.shard_group_size = static_cast<std::size_t>(node_size_of_four());
  if (options.shard_group_size == 1) return;
  expect_training_without_images(options);
}

TEST(WeightImages, GiveItWithUpdatesInBackwardKeptWeightsAndUnitsThatStay) {
  zero::Options options = image_options("int4:128");
  options.update_in_backward = true;
  expect_training_without_images(options);
  options.max_reuse_distance = 20'000;
  expect_training_without_images(options);
  options.persistence_threshold = 7000;  // the embedding, of three units
  expect_training_without_images(options);
}

/// Units that persist are sent as their updates wrote them; where updates take place in backward
/// they are encoded for it.
void expect_refreshes_as_encoded(zero::Options options) {
  options.persistence_threshold = 1'000'000'000;  // all units
  ImageCase written(options);
  options.update_in_backward = true;
  ImageCase encoded(options);
  const Outcome expected = encoded.train(5, 2);
  const Outcome outcome = written.train(5, 2);
  EXPECT_EQ(outcome.hash, expected.hash);
  EXPECT_EQ(outcome.losses, expected.losses);
  EXPECT_EQ(outcome.sent, expected.sent);
  const std::size_t units = written.engine().plan().input.units.size();
  EXPECT_EQ(written.recorder().counters["refreshes_by_updates"], 5 * units);
  EXPECT_EQ(encoded.recorder().counters["refreshes_by_updates"], 0U);
  EXPECT_GT(table_bytes(written), 0U);
  EXPECT_EQ(table_bytes(encoded), 0U);
  EXPECT_EQ(image_bytes(written), 0U);
}

TEST(WeightImages, OfUnitsThatStayAreSentAsTheirUpdatesWroteThem) {
  for (const char* algorithm : {"flat", "direct", "native-images", "two-level"}) {
    for (const char* codec : {"int8:256", "int4:64"}) {
      for (const std::size_t depth : {1U, 3U}) {
        SCOPED_TRACE(std::string(algorithm) + " " + codec + " depth " + std::to_string(depth));
        zero::Options options = image_options(codec);
        options.all_gather_algorithm = algorithm;
        options.pipeline_depth = depth;
        expect_refreshes_as_encoded(options);
      }
    }
  }
}

TEST(WeightImages, OfUnitsThatStayAreSentSoInEveryDtypeAndOrder) {
  for (const Dtype compute : {Dtype::fp32, Dtype::bf16, Dtype::fp16}) {
    for (const bool overlap : {false, true}) {
      zero::Options options = image_options("int8:128");
      options.compute = compute;
      options.loss_scale.fixed = 1;
      options.overlap_comm = overlap;
      expect_refreshes_as_encoded(options);
    }
  }
}

TEST(WeightImages, GiveItWhereErrorsAreMeasured) {
  zero::Options options = image_options("int4:64+sr");
  options.measure_errors = 2;
  ImageCase without(options);
  ImageCase with(keeping_images(options));
  EXPECT_EQ(with.train(4).hash, without.train(4).hash);
  const auto& rows = with.recorder().errors;
  const auto& expected = without.recorder().errors;
  ASSERT_EQ(rows.size(), expected.size());
  for (std::size_t i = 0; i < rows.size(); ++i)
    EXPECT_EQ(rows[i].relative_l2, expected[i].relative_l2);
}

TEST(WeightImages, FollowCodecsThatChange) {
  zero::Options options = image_options("int8:128");
  options.codec_schedule = {
      {.from_step = 1, .units = {"block"}, .weight_codec = parse_codec("int4:64")},
      {.from_step = 2, .weight_codec = parse_codec("int6:32+asym+sr")},
      {.from_step = 4, .units = {"head", "embedding"}, .weight_codec = parse_codec("none")}};
  for (const std::size_t bad : {kNoBadStep, std::size_t{1}, std::size_t{3}}) {
    SCOPED_TRACE(bad);
    expect_training_without_images(options, bad);
  }
}

TEST(WeightImages, FollowAdaptiveBits) {
  if (world().size() == 1) return;  // which sends nothing
  zero::Options options = image_options();
  options.quantized_gradients = true;
  options.adaptive_bits = {.values = zero::AdaptedValues::weights, .block = 64, .interval = 1};
  expect_training_without_images(options);
}

TEST(WeightImages, FollowEveryOptimizerAndKindOfMoments) {
  for (const auto& [type, moments] :
       {std::pair{"AdamW", Moments::bf16}, std::pair{"AdamW", Moments::int8},
        std::pair{"Adam", Moments::fp32}, std::pair{"Lion", Moments::fp32},
        std::pair{"SGD", Moments::fp32}}) {
    SCOPED_TRACE(type);
    expect_training_without_images(
        image_options("int8:256"), kNoBadStep,
        {.type = type, .learning_rate = 1e-3, .weight_decay = 0.1, .moments = moments});
  }
}

using KeptState = std::map<std::string, std::vector<std::byte>>;

KeptState kept_state(ImageCase& made) {
  Buffer memory;
  KeptState kept;
  for (const checkpoint::HostSlice& slice : made.engine().state(memory))
    kept[slice.slice.array].assign(slice.values.begin(), slice.values.end());
  return kept;
}

zero::ReadSlice reading_kept(const KeptState& kept) {
  return [&kept](const checkpoint::Slice& wanted, std::span<std::byte> values) {
    ASSERT_EQ(kept.at(wanted.array).size(), values.size()) << wanted.array;
    std::ranges::copy(kept.at(wanted.array), values.begin());
  };
}

TEST(WeightImages, FollowACheckpoint) {
  const zero::Options options = keeping_images(image_options("int8:64+sr"));
  const std::string expected = ImageCase(image_options("int8:64+sr")).train(5).hash;
  ImageCase first(options);
  for (std::uint64_t step = 0; step < 3; ++step) first.step(step);
  const KeptState kept = kept_state(first);
  ImageCase second(options);
  second.engine().restore({.steps = first.engine().steps()}, reading_kept(kept),
                          [&](const auto& wanted) { return kept.contains(wanted.array); });
  for (std::uint64_t step = 3; step < 5; ++step) second.step(step);
  EXPECT_EQ(second.engine().parameters_hash(), expected);
}

/// Trains, and trains on from a checkpoint of steps before: the first weights are encoded then,
/// where the step before the checkpoint's end had written them.
void expect_refreshes_of_a_restored_run(const zero::Options& options,
                                        std::size_t bad_step = kNoBadStep,
                                        const optim::Options& optimizer = {.learning_rate = 2e-3}) {
  ImageCase whole(options, bad_step, optimizer);
  const std::string expected = whole.train(5).hash;
  EXPECT_GT(whole.recorder().counters["refreshes_by_updates"], 0U);
  ImageCase first(options, bad_step, optimizer);
  for (std::uint64_t step = 0; step < 3; ++step) first.step(step);
  const KeptState kept = kept_state(first);
  ImageCase second(options, kNoBadStep, optimizer);
  second.engine().restore({.steps = first.engine().steps()}, reading_kept(kept),
                          [&](const auto& wanted) { return kept.contains(wanted.array); });
  for (std::uint64_t step = 3; step < 5; ++step) second.step(step);
  EXPECT_EQ(second.engine().parameters_hash(), expected);
}

TEST(WeightImages, OfUnitsThatStayAreThoseOfARestoredRun) {
  zero::Options plain = image_options("int8:256");
  plain.persistence_threshold = 1'000'000'000;  // all units
  std::vector<std::pair<const char*, zero::Options>> cases{{"plain", plain}};
  const auto add = [&](const char* name, const auto& change) {
    zero::Options options = plain;
    change(options);
    cases.emplace_back(name, options);
  };
  add("micro-steps", [](zero::Options& options) { options.accumulation_steps = 3; });
  add("some units, images of the others kept", [](zero::Options& options) {
    options.persistence_threshold = 7000;
    options.keep_weight_images = true;
  });
  for (const auto& [name, options] : cases) {
    SCOPED_TRACE(name);
    expect_refreshes_of_a_restored_run(options);
    expect_refreshes_of_a_restored_run(options, 1);
    expect_refreshes_of_a_restored_run(options, 2);
  }
  for (const Moments moments : {Moments::bf16, Moments::int8}) {
    expect_refreshes_of_a_restored_run(plain, kNoBadStep,
                                       {.type = "Adam", .learning_rate = 1e-3, .moments = moments});
  }
}

/// Weights of the same version, which others have written.
TEST(WeightImages, FollowWeightsThatAreSet) {
  const auto losses_of = [](const zero::Options& options) {
    ImageCase made(options);
    made.step(0);
    const KeptState kept = kept_state(made);
    std::vector<double> losses{made.step(1).loss};
    made.engine().set_weights(reading_kept(kept));
    for (const std::uint64_t step : {2, 3}) losses.push_back(made.step(step).loss);
    return losses;
  };
  const zero::Options options = image_options("int4:64");
  EXPECT_EQ(losses_of(keeping_images(options)), losses_of(options));
}

TEST(WeightImages, TakeTheBytesOfTheLargestCodecOfEachUnit) {
  zero::Options options = keeping_images(image_options("int4:64"));
  options.codec_schedule = {
      {.from_step = 1, .units = {"block"}, .weight_codec = parse_codec("int8:64")},
      {.from_step = 2, .units = {"head"}, .weight_codec = parse_codec("none")}};
  ImageCase made(options);
  std::size_t expected = 0;
  const auto& units = made.engine().plan().input.units;
  for (std::size_t u = 0; u < units.size(); ++u) {
    const bool block = u > 0 && u + 1 < units.size();
    const std::size_t blocks = (units[u].shard + 63) / 64;
    const auto up = [](std::size_t bytes) { return (bytes + 15) / 16 * 16; };
    expected += up(blocks * (block ? 64 : 32)) + up(2 * blocks);
  }
  EXPECT_EQ(image_bytes(made), expected);
}

TEST(WeightImages, AreNotKeptWhereNoGatherStartsFromThem) {
  zero::Options options = keeping_images(image_options());
  options.stage = 2;
  EXPECT_FALSE(zero::keeps_weight_images(options));
  options.stage = 3;
  EXPECT_TRUE(zero::keeps_weight_images(options));
  options.offload_optimizer.device = zero::OffloadDevice::cpu;
  EXPECT_FALSE(zero::keeps_weight_images(options));
  options.offload_optimizer = {};
  options.quantized_weights = false;
  EXPECT_FALSE(zero::keeps_weight_images(options));
}

}  // namespace
}  // namespace zeropp::test
