// ctest: name=contract9_config_codec_choice timeout=30 labels=sanitize
// zeropp.codec_schedule and zeropp.adaptive_bits: what is read is what was written, and every entry
// that is wrong or would have no effect is refused with a line that names it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/app/registries.hpp"
#include "lib/base/error.hpp"
#include "lib/comm/topology.hpp"
#include "lib/config/json.hpp"
#include "lib/config/options.hpp"
#include "lib/config/resolve.hpp"

namespace zeropp::config {
namespace {

using testing::AllOf;
using testing::HasSubstr;

/// Resolved on 2 nodes x 2 ranks, with qwZ and qgZ unless `zero` says otherwise.
std::string canonical(
    const std::string& own,
    const std::string& zero = R"("zero_quantized_weights":true,"zero_quantized_gradients":true)") {
  TrainConfig config;
  auto table = options(config);
  read_text(R"({"zero_optimization":{)" + zero + R"(},"zeropp":{)" + own + "}}", "x.json", table);
  resolve(config, table, app::machine_of(comm::declared_topology(4, 2)));
  return canonical_json(table);
}

std::string refusal(
    const std::string& own,
    const std::string& zero = R"("zero_quantized_weights":true,"zero_quantized_gradients":true)") {
  try {
    (void)canonical(own, zero);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::usage);
    EXPECT_THAT(error.what(), testing::Not(HasSubstr("\n")));
    return error.what();
  }
  ADD_FAILURE() << own << " was accepted";
  return "";
}

std::string schedule(const std::string& entries) { return R"("codec_schedule":[)" + entries + "]"; }

TEST(CodecSchedule, IsReadAsItIsWritten) {
  const std::string written = canonical(schedule(
      R"({"weight_codec":"int4"},{"from_step":3,"units":["block","h.[01]"],"gradient_codec_intra":"int8:64",
          "gradient_codec_inter":"int4:128+had32"})"));
  EXPECT_THAT(written, HasSubstr(R"({"from_step":0,"weight_codec":"int4:128"})"));
  EXPECT_THAT(written,
              HasSubstr(R"({"from_step":3,"gradient_codec_inter":"int4:128+had32",)"
                        R"("gradient_codec_intra":"int8:64","units":["block","h.[01]"]})"));
  TrainConfig again;
  auto table = options(again);
  read_text(written, "effective", table);
  EXPECT_EQ(canonical_json(table), written);
  EXPECT_THAT(canonical(""), HasSubstr(R"("codec_schedule":[])"));
}

TEST(CodecSchedule, OfOneHopHasOneCodec) {
  const std::string hop = R"("reduce_scatter_algorithm":"1-hop",)";
  EXPECT_THAT(canonical(hop + schedule(R"({"gradient_codec_intra":"int8:64"})")),
              HasSubstr(R"("gradient_codec_inter":"int8:64","gradient_codec_intra":"int8:64"})"));
  EXPECT_THAT(
      refusal(hop + schedule(R"({"gradient_codec_inter":"int8:64"})")),
      AllOf(HasSubstr("zeropp.codec_schedule[0].gradient_codec_inter"), HasSubstr("1-hop")));
}

TEST(CodecSchedule, WrongEntriesAreRefused) {
  const std::string good = R"({"from_step":2,"weight_codec":"int4:64"})";
  const std::pair<std::string, std::string> wrong[] = {
      {good + ",7", "zeropp.codec_schedule[1]: must be an object"},
      {R"({"from_steps":2,"weight_codec":"int4:64"})",
       "unknown key from_steps (nearest known: from_step)"},
      {R"({"from_step":-1,"weight_codec":"int4:64"})", "[0].from_step: must be a whole number"},
      {R"({"from_step":1.5,"weight_codec":"int4:64"})", "[0].from_step: must be a whole number"},
      {R"({"from_step":2})", "[0]: names no codec"},
      {R"({"weight_codec":"int9:64"})", "[0].weight_codec"},
      {R"({"weight_codec":null})", "[0].weight_codec: must be a codec"},
      {R"({"units":[],"weight_codec":"int4:64"})", "[0].units: must be an array"},
      {R"({"units":"head","weight_codec":"int4:64"})", "[0].units: must be an array"},
      {R"({"units":[""],"weight_codec":"int4:64"})", "[0].units: must be an array"},
      {good + R"(,{"from_step":1,"weight_codec":"int4:64"})",
       "[1].from_step: 1 comes before the 2"},
      {R"({"from_step":10,"weight_codec":"int4:64"})", "10 never comes, the run has 10 steps"},
  };
  for (const auto& [entries, reason] : wrong) {
    EXPECT_THAT(refusal(schedule(entries)),
                AllOf(HasSubstr("zeropp.codec_schedule"), HasSubstr(reason)));
  }
  EXPECT_THAT(refusal(R"("codec_schedule":{})"), HasSubstr("must be an array"));
}

TEST(CodecSchedule, NeedsWhatItChanges) {
  const char* const weights = R"("zero_quantized_weights":true)";
  const char* const gradients = R"("zero_quantized_gradients":true)";
  EXPECT_THAT(refusal(schedule(R"({"gradient_codec_intra":"int8:64"})"), weights),
              HasSubstr("[0].gradient_codec_intra would have no effect: it needs "
                        "zero_optimization.zero_quantized_gradients"));
  EXPECT_THAT(refusal(schedule(R"({"weight_codec":"int8:64"})"), gradients),
              HasSubstr("zero_optimization.zero_quantized_weights"));
  EXPECT_THAT(refusal(schedule(""), R"("stage":3)"), HasSubstr("zeropp.codec_schedule: is set"));
}

TEST(CodecSchedule, FlagsGiveJson) {
  TrainConfig config;
  for (Option& option : options(config)) {
    if (option.path != "zeropp.codec_schedule") continue;
    set_from_text(option, R"([{"units":["head"],"weight_codec":"bf16"}])", option.flag);
    ASSERT_EQ(config.zero.codec_schedule.size(), 1U);
    EXPECT_EQ(config.zero.codec_schedule[0].units, std::vector<std::string>{"head"});
    for (const char* wrong : {"", "[", "seven", "7", "[1]"}) {
      EXPECT_THROW(set_from_text(option, wrong, option.flag), Error) << wrong;
    }
    return;
  }
  FAIL() << "no such option";
}

TEST(AdaptiveBits, AreRefusedWhereTheyAreNone) {
  const auto adaptive = [](const std::string& more) {
    return R"("adaptive_bits":{"values":"gradients")" + more + "}";
  };
  EXPECT_NO_THROW((void)canonical(adaptive("")));
  EXPECT_THAT(refusal(adaptive(R"(,"minimum_bits":6,"maximum_bits":5)")),
              HasSubstr("minimum_bits 6 is above maximum_bits 5"));
  EXPECT_THAT(refusal(adaptive(R"(,"minimum_bits":1)")), HasSubstr("from 2 to 8"));
  EXPECT_THAT(refusal(adaptive(R"(,"block":100)")), HasSubstr("zeropp.adaptive_bits.block"));
  EXPECT_THAT(refusal(adaptive(R"(,"interval":0)")), HasSubstr("zeropp.adaptive_bits.interval"));
  EXPECT_THAT(refusal(adaptive(R"(,"budget_bytes":9,"budget_codec":"int5:64")")),
              HasSubstr("zeropp.adaptive_bits.budget_codec: is set but would have no effect"));
  EXPECT_THAT(refusal(adaptive("") + R"(,"gradient_codec_intra":"int8:64")"),
              AllOf(HasSubstr("zeropp.gradient_codec_intra"), HasSubstr("adaptive_bits.values")));
  EXPECT_THAT(refusal(adaptive("") + "," + schedule(R"({"gradient_codec_inter":"int8:64"})")),
              HasSubstr("zeropp.adaptive_bits chooses the codecs of gradients"));
  EXPECT_NO_THROW((void)canonical(adaptive("") + "," + schedule(R"({"weight_codec":"int6:64"})")));
  EXPECT_THAT(refusal(adaptive(""), R"("zero_quantized_weights":true)"),
              HasSubstr("zero_optimization.zero_quantized_gradients"));
  EXPECT_THAT(refusal(R"("adaptive_bits":{"interval":5})"),
              HasSubstr("zeropp.adaptive_bits.interval: is set but would have no effect"));
}

}  // namespace
}  // namespace zeropp::config
