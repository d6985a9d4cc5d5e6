// ctest: name=zero_codec_table timeout=30 labels=sanitize
// Which codecs a unit takes in which step: by entries in order, kinds, names and patterns; and
// which units may share a bucket.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/base/error.hpp"
#include "lib/zero/plan/codec_table.hpp"

namespace zeropp::zero {
namespace {

using codec::parse_codec;
using testing::HasSubstr;

std::vector<Unit> units() {
  std::vector<Unit> list;
  for (const char* name : {"embedding", "h.0", "h.1", "h.12", "head"})
    list.emplace_back().name = name;
  return list;
}

Options quantized() {
  Options options;
  options.quantized_weights = options.quantized_gradients = true;
  return options;
}

/// The codec names of the weights of every unit in this step.
std::vector<std::string> weights_at(const CodecTable& table, std::uint64_t step) {
  std::vector<std::string> names;
  const CodecChoice choice = table.at(step);
  for (std::size_t u = 0; u < choice.weights.size(); ++u) {
    names.push_back(to_string(table.weights(u)[choice.weights[u]]));
  }
  return names;
}
std::vector<std::string> gradients_at(const CodecTable& table, std::uint64_t step) {
  std::vector<std::string> names;
  const CodecChoice choice = table.at(step);
  for (std::size_t u = 0; u < choice.gradients.size(); ++u) {
    const GradientCodecs& codecs = table.gradients(u)[choice.gradients[u]];
    names.push_back(to_string(codecs.intra) + "/" + to_string(codecs.inter));
  }
  return names;
}

TEST(CodecTable, WithoutEntriesEveryUnitHasTheOptionsCodecs) {
  const CodecTable table(quantized(), units());
  for (const std::uint64_t step : {0, 1, 1'000'000}) {
    EXPECT_EQ(weights_at(table, step), std::vector<std::string>(5, "int8:256"));
    EXPECT_EQ(gradients_at(table, step), std::vector<std::string>(5, "int4:128/int4:128"));
  }
  EXPECT_EQ(table.gradient_groups(), std::vector<std::size_t>(5, 0));
  const CodecTable plain(Options{}, units());
  EXPECT_EQ(weights_at(plain, 3), std::vector<std::string>(5, "none"));
  EXPECT_EQ(gradients_at(plain, 3), std::vector<std::string>(5, "none/none"));
}

TEST(CodecTable, TheLastEntryWhoseStepHasComeDecides) {
  Options options = quantized();
  options.codec_schedule = {
      {.weight_codec = parse_codec("int6:64")},
      {.units = {"block", "head"}, .gradient_codec_intra = parse_codec("int8:128")},
      {.from_step = 5, .units = {"h.1*"}, .weight_codec = parse_codec("int4:64")},
      {.from_step = 5, .units = {"h.12"}, .weight_codec = parse_codec("bf16")},
      {.from_step = 9, .gradient_codec_intra = parse_codec("int4:128")}};
  const CodecTable table(options, units());
  const std::vector<std::string> early(5, "int6:64");
  EXPECT_EQ(weights_at(table, 0), early);
  EXPECT_EQ(weights_at(table, 4), early);
  const std::vector<std::string> late{"int6:64", "int6:64", "int4:64", "bf16", "int6:64"};
  EXPECT_EQ(weights_at(table, 5), late);
  EXPECT_EQ(weights_at(table, 9), late);
  const std::string four = "int4:128/int4:128";
  const std::string eight = "int8:128/int4:128";
  EXPECT_EQ(gradients_at(table, 8), (std::vector{four, eight, eight, eight, eight}));
  EXPECT_EQ(gradients_at(table, 9), std::vector<std::string>(5, four));
  // A codec that is never taken is not planned: weight_codec is replaced at once.
  EXPECT_EQ(table.weights(0), std::vector{parse_codec("int6:64")});
  EXPECT_EQ(table.weights(3), (std::vector{parse_codec("int6:64"), parse_codec("bf16")}));
  EXPECT_EQ(table.gradients(0).size(), 1U);
  EXPECT_EQ(table.gradients(1).size(), 2U);
  EXPECT_EQ(table.gradient_groups(), (std::vector<std::size_t>{0, 1, 1, 1, 1}));
}

/// Stage 3 sends the weights of a step in that step, stages 1 and 2 send the weights of the next
/// step.
TEST(CodecTable, WholeWeightsGoAfterAsManyStepsAtEveryStage) {
  Options options;
  options.quantized_weights = true;
  options.weight_differences = {.enabled = true, .refresh_interval = 3};
  const std::vector<Unit> units{Unit{"any", {}, 0}};
  for (const int stage : {1, 2, 3}) {
    options.stage = stage;
    const CodecTable table(options, units);
    const std::uint64_t ahead = stage == 3 ? 0 : 1;
    std::vector<std::uint64_t> whole;
    for (std::uint64_t step = 0; step < 9; ++step) {
      EXPECT_EQ(table.at(step).whole_weights, table.refreshes_at(step));
      if (table.refreshes_at(step)) whole.push_back(step + ahead);
    }
    const std::vector<std::uint64_t> of_stage_3{0, 3, 6};
    EXPECT_EQ(whole, stage == 3 ? of_stage_3 : (std::vector<std::uint64_t>{3, 6, 9})) << stage;
  }
}

TEST(CodecTable, UnitsOfEqualCodecsInAllStepsAreOneGroup) {
  Options options = quantized();
  options.codec_schedule = {
      {.units = {"h.0"}, .gradient_codec_inter = parse_codec("int8:128")},
      {.from_step = 2, .units = {"e*g"}, .gradient_codec_inter = parse_codec("int8:128")},
      {.from_step = 2, .units = {"h.1"}, .weight_codec = parse_codec("int4:64")}};
  EXPECT_EQ(CodecTable(options, units()).gradient_groups(),
            (std::vector<std::size_t>{0, 1, 2, 2, 2}));
}

TEST(CodecTable, APatternThatFitsNoUnitIsRefused) {
  Options options = quantized();
  options.codec_schedule = {{.units = {"block"}, .weight_codec = parse_codec("bf16")},
                            {.units = {"head", "blok"}, .weight_codec = parse_codec("bf16")}};
  try {
    CodecTable(options, units());
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::usage);
    EXPECT_THAT(error.what(), HasSubstr("zeropp.codec_schedule[1].units: \"blok\""));
    EXPECT_THAT(error.what(), HasSubstr("embedding, block, head"));
  }
}

TEST(CodecTable, AdaptiveValuesHaveEveryWidth) {
  Options options = quantized();
  options.adaptive_bits = {
      .values = AdaptedValues::gradients, .minimum_bits = 3, .maximum_bits = 5, .block = 64};
  const CodecTable table(options, units());
  for (std::size_t u = 0; u < 5; ++u) {
    ASSERT_EQ(table.gradients(u).size(), 3U);
    EXPECT_EQ(to_string(table.gradients(u)[2].inter), "int5:64");
    EXPECT_EQ(table.weights(u).size(), 1U);
  }
  EXPECT_EQ(table.gradient_groups(), (std::vector<std::size_t>{0, 1, 2, 3, 4}));
  EXPECT_EQ(gradient_block(options), 64U);
  options.adaptive_bits.values = AdaptedValues::weights;
  EXPECT_EQ(CodecTable(options, units()).weights(4).size(), 3U);
  EXPECT_EQ(gradient_block(options), 128U);
}

TEST(CodecTable, BlocksOfAllEntriesCount) {
  Options options = quantized();
  EXPECT_EQ(gradient_block(options), 128U);
  options.codec_schedule = {{.from_step = 7, .gradient_codec_inter = parse_codec("int8:1024")},
                            {.from_step = 8, .weight_codec = parse_codec("int8:2048")}};
  EXPECT_EQ(gradient_block(options), 1024U);
  options.quantized_gradients = false;
  EXPECT_EQ(gradient_block(options), 1U);
}

}  // namespace
}  // namespace zeropp::zero
