// ctest: name=zero_codec_schedule np=1,4 cuda=mpi,nccl timeout=180 labels=sanitize
// Codecs that change by step and by unit: a schedule changes nothing but the codecs that it names.
// Bytes are as predicted in every step, also in the step of a change. hpZ gives the same parameters
// as training without hpZ, though a skipped step leaves its shards valid. The errors of error
// feedback outlive a change.
#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <map>

#include "tests/support/engine_case.hpp"
#include "tests/support/planted_model.hpp"

namespace zeropp::test {
namespace {

using codec::parse_codec;

constexpr std::size_t kNever = std::numeric_limits<std::size_t>::max();

struct ScheduleCase : EngineCase {
  /// `bad_step`: in which the last rank's gradient is no number.
  explicit ScheduleCase(const zero::Options& options, std::size_t bad_step = kNever)
      : EngineCase(options, node_size_of_four(), [bad_step](const model::Context& context) {
          const Plant nan{.value = std::numeric_limits<float>::quiet_NaN(),
                          .rank = world().size() - 1};
          return std::make_unique<PlantedModel>(make_tiny_gpt(context), Plants{{bad_step, nan}});
        }) {}
};

zero::Options base(std::size_t hpz = 1) {
  zero::Options options;
  options.quantized_weights = options.quantized_gradients = true;
  options.weight_codec = parse_codec("int8:128");
  options.gradient_codec_intra = parse_codec("int8:128");
  options.gradient_codec_inter = parse_codec("int4:128");
  options.reduce_scatter_algorithm = "2-hop";
  options.reduce_bucket_size = 9'000;
  options.hpz_partition_size = hpz;
  options.deterministic = true;
  return options;
}

std::vector<std::string> hashes_of(const zero::Options& options, std::uint64_t steps) {
  ScheduleCase made(options);
  std::vector<std::string> hashes;
  for (std::uint64_t step = 0; step < steps; ++step) {
    made.step(step);  // expects the predicted bytes
    hashes.push_back(made.engine().parameters_hash());
  }
  for (const zero::MemoryReport& row : made.engine().memory()) {
    EXPECT_EQ(row.actual, row.predicted) << row.name;
  }
  return hashes;
}

TEST(CodecSchedule, OfTheSameCodecsChangesNoBit) {
  const auto plain = hashes_of(base(), 4);
  zero::Options options = base();
  options.codec_schedule = {
      {.weight_codec = parse_codec("int8:128"), .gradient_codec_intra = parse_codec("int8:128")},
      {.from_step = 2, .gradient_codec_inter = parse_codec("int4:128")}};
  EXPECT_EQ(hashes_of(options, 4), plain);
  // Such a schedule may replace other codecs from the first step on.
  options.weight_codec = parse_codec("int4:64");
  options.gradient_codec_intra = options.gradient_codec_inter = parse_codec("int6:128");
  options.codec_schedule = {{.weight_codec = parse_codec("int8:128"),
                             .gradient_codec_intra = parse_codec("int8:128"),
                             .gradient_codec_inter = parse_codec("int4:128")}};
  EXPECT_EQ(hashes_of(options, 4), plain);
}

TEST(CodecSchedule, ChangesNothingBeforeItsStep) {
  const auto plain = hashes_of(base(), 4);
  zero::Options options = base();
  options.codec_schedule = {{.from_step = 2, .gradient_codec_intra = parse_codec("int4:128")}};
  const auto changed = hashes_of(options, 4);
  EXPECT_EQ(changed[1], plain[1]);
  EXPECT_NE(changed[2], plain[2]);
  options.codec_schedule = {{.from_step = 2, .weight_codec = parse_codec("int4:128")}};
  const auto weights = hashes_of(options, 4);
  EXPECT_EQ(weights[1], plain[1]);
  EXPECT_NE(weights[2], plain[2]);
}

TEST(CodecSchedule, WithHpzIsTheSame) {
  if (world().size() == 1) return;  // no group to partition in
  const auto hpz = static_cast<std::size_t>(node_size_of_four());
  const std::vector<zero::CodecEntry> schedule{
      {.from_step = 1, .units = {"block"}, .weight_codec = parse_codec("int4:64")},
      {.from_step = 2, .weight_codec = parse_codec("int6:32+asym")},
      {.from_step = 4, .units = {"head", "embedding"}, .weight_codec = parse_codec("none")}};
  // A step that is skipped right before a change: without hpZ the next gather is in the new codec.
  for (const std::size_t bad : {kNever, std::size_t{1}, std::size_t{3}}) {
    std::vector<std::string> hashes[2];
    std::vector<double> losses[2];
    for (const bool on : {false, true}) {
      zero::Options options = base(on ? hpz : 1);
      options.codec_schedule = schedule;
      ScheduleCase made(options, bad);
      const Outcome outcome = made.train(6, 1);
      losses[on ? 1 : 0] = outcome.losses;
      hashes[on ? 1 : 0] = {outcome.hash};
      EXPECT_EQ(outcome.skipped, bad == kNever ? 0U : 1U);
      EXPECT_EQ(outcome.secondary_gathers > 0, on);
    }
    EXPECT_EQ(hashes[0], hashes[1]) << "skipped step " << bad;
    EXPECT_EQ(losses[0], losses[1]) << "skipped step " << bad;
  }
}

TEST(CodecSchedule, RowsSayWhatWasInForce) {
  zero::Options options = base();
  options.codec_schedule = {
      {.units = {"head"}, .gradient_codec_intra = parse_codec("int6:128")},
      {.from_step = 2, .units = {"h.1"}, .weight_codec = parse_codec("bf16")}};
  ScheduleCase made(options);
  made.train(4);
  const auto& rows = made.recorder().codecs;
  ASSERT_EQ(rows.size(), 5U);  // embedding, h.0, h.1, head; then h.1
  for (std::size_t u = 0; u < 4; ++u) {
    EXPECT_EQ(rows[u].step, 0U);
    EXPECT_EQ(rows[u].unit, u);
    EXPECT_EQ(rows[u].weights, "int8:128");
    EXPECT_EQ(rows[u].gradients_intra, u == 3 ? "int6:128" : "int8:128");
    EXPECT_EQ(rows[u].gradients_inter, "int4:128");
  }
  EXPECT_EQ(rows[4].step, 2U);
  EXPECT_EQ(rows[4].unit, 2U);
  EXPECT_EQ(rows[4].weights, "bf16");
}

TEST(CodecSchedule, KeptErrorsOutliveAChange) {
  // Nothing is lost any more from step 2 on, where in fp32 the codec `none` errs nowhere: with beta
  // the kept errors decay by it, and are no others.
  if (world().size() == 1) return;
  for (const auto dtype : {zero::FeedbackStorage::fp32, zero::FeedbackStorage::int8}) {
    zero::Options options = base();
    options.gradient_codec_intra = options.gradient_codec_inter = parse_codec("int4:128");
    options.error_feedback.hops = zero::FeedbackHops::both;
    options.error_feedback.beta = 0.5;
    options.error_feedback.dtype = dtype;
    options.codec_schedule = {{.from_step = 2,
                               .gradient_codec_intra = parse_codec("none"),
                               .gradient_codec_inter = parse_codec("none")}};
    ScheduleCase made(options);
    made.step(0);
    made.step(1);
    const auto before = made.errors();
    made.step(2);
    const auto after = made.errors();
    ASSERT_EQ(after.size(), before.size());
    std::size_t kept = 0;
    for (const auto& [name, bytes] : before) {
      ASSERT_EQ(after.at(name).size(), bytes.size());
      EXPECT_NE(after.at(name), bytes) << name;
      if (dtype != zero::FeedbackStorage::fp32) continue;
      for (std::size_t at = 0; at < bytes.size(); at += sizeof(float)) {
        float old = 0;
        float now = 0;
        std::memcpy(&old, &bytes[at], sizeof old);
        std::memcpy(&now, &after.at(name)[at], sizeof now);
        kept += old != 0 ? 1 : 0;
        // An error becomes half of it, and of what h - Q(h) rounds, which is nothing in fp32.
        ASSERT_EQ(now, 0.5F * old) << name << " " << at;
      }
    }
    if (dtype == zero::FeedbackStorage::fp32) {
      EXPECT_GT(kept, 1000U);
    }
  }
}

}  // namespace
}  // namespace zeropp::test
