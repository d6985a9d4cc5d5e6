// ctest: name=contract1_codec_registry labels=sanitize
// The registry against its folder, and the name grammar: what it takes, what it says when it does
// not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <set>

#include "tests/support/codec_cases.hpp"

namespace zeropp::test {
namespace {

using codec::Codec;
using codec::CodecSpec;
using codec::parse_codec;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

TEST(CodecRegistry, IsWhatLiesInTheFolder) {
  const char* const source = std::getenv("ZEROPP_SOURCE");
  ASSERT_NE(source, nullptr) << "set ZEROPP_SOURCE to the source tree";
  std::set<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(std::filesystem::path(source) /
                                                               "kernels/codec/formats")) {
    files.insert(entry.path().stem());
  }
  std::set<std::string> registered;
  std::string previous;
  for (const codec::FormatInfo& info : codec::formats()) {
    EXPECT_LT(previous, info.name) << "in name order";
    previous = info.name;
    EXPECT_FALSE(info.summary.empty());
    registered.emplace(info.name);
  }
  EXPECT_EQ(registered, files);
}

TEST(CodecGrammar, NamesRoundTrip) {
  for (const CodecSpec& spec : all_specs()) {
    const std::string name = codec::to_string(spec);
    EXPECT_EQ(parse_codec(name), spec) << name;
    for (const Dtype memory : {Dtype::fp32, Dtype::bf16, Dtype::fp16}) {
      EXPECT_EQ(Codec(spec, memory).name(), name);
    }
  }
  EXPECT_EQ(parse_codec("none"), CodecSpec{});
}

TEST(CodecGrammar, DefaultBlockIsWrittenOut) {
  EXPECT_EQ(codec::to_string(parse_codec("int8")), "int8:256");
  EXPECT_EQ(codec::to_string(parse_codec("int4")), "int4:128");
  EXPECT_EQ(codec::to_string({"int8", 0, {}}), "int8:256");
  EXPECT_EQ(Codec({"int4", 0, {}}, Dtype::bf16).name(), "int4:128");
  EXPECT_EQ(Codec({"int4", 0, {}}, Dtype::bf16).block(), 128U);
}

TEST(CodecGrammar, OptionsHaveOneOrder) {
  EXPECT_EQ(codec::to_string(parse_codec("int4+wide+s32+had32")), "int4:128+had32+s32+wide");
  EXPECT_EQ(parse_codec("int6:64+s32+asym"), parse_codec("int6:64+asym+s32"));
  EXPECT_EQ(Codec(parse_codec("int3:32+s32+asym"), Dtype::bf16).name(), "int3:32+asym+s32");
}

TEST(CodecGrammar, NoneIsTheIdentityInTheMemoryDtype) {
  EXPECT_EQ(Codec(CodecSpec{}, Dtype::fp32).wire_bytes(100), 400U);
  EXPECT_EQ(Codec(CodecSpec{}, Dtype::bf16).wire_bytes(100), 208U);
  EXPECT_EQ(Codec(CodecSpec{}, Dtype::fp16).name(), "none");
  for (const Dtype memory : {Dtype::fp32, Dtype::bf16, Dtype::fp16}) {
    const Codec none(CodecSpec{}, memory);
    Values in(65536, memory);
    for (std::size_t i = 0; i < in.size(); ++i) {
      in.set_bits(i, static_cast<std::uint32_t>(memory == Dtype::fp32 ? i * 65537 : i));
    }
    const Values out = decoded(none, encoded(none, in), in.size(), memory);
    for (std::size_t i = 0; i < in.size(); ++i) ASSERT_EQ(in.bits(i), out.bits(i));
  }
}

std::string refusal(const std::string& text) {
  try {
    parse_codec(text);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "accepted";
}

TEST(CodecGrammar, RefusalsSayWhatIsWrong) {
  EXPECT_THAT(refusal("int9:128"),
              AllOf(HasSubstr("'int9'"), HasSubstr("known: "), HasSubstr("int8")));
  for (const auto& [width, nearest] :
       {std::pair{"int9", "'int8'"}, {"int16", "'int8'"}, {"int1", "'int2'"}}) {
    EXPECT_THAT(refusal(width), AllOf(HasSubstr("integers have 2 to 8 bits"),
                                      HasSubstr(std::string("the nearest known is ") + nearest)));
  }
  EXPECT_THAT(refusal("INT8"), HasSubstr("the nearest known is 'int8'"));
  EXPECT_THAT(refusal("fp61"), HasSubstr("the nearest known is 'fp16'"));
  EXPECT_THAT(refusal("int8:100"), HasSubstr("block '100' is not a power of two from 32 to 8192"));
  EXPECT_THAT(refusal("int8:16"), HasSubstr("not a power of two from 32 to 8192"));
  EXPECT_THAT(refusal("int8:16384"), HasSubstr("not a power of two from 32 to 8192"));
  EXPECT_THAT(refusal("int8:0"), HasSubstr("block '0'"));
  EXPECT_THAT(refusal("int8:"), HasSubstr("block ''"));
  EXPECT_THAT(refusal("int8:-32"), HasSubstr("block '-32'"));
  EXPECT_THAT(refusal("int8:99999999999999999999999"), HasSubstr("not a power of two"));
  EXPECT_THAT(refusal("int8:256x"), HasSubstr("block '256x'"));
  EXPECT_THAT(refusal("int8:256:2"), HasSubstr("block '256:2'"));
  EXPECT_THAT(refusal(" int8"), HasSubstr("unknown format ' int8'"));
  EXPECT_THAT(refusal("none:32"), HasSubstr("takes no block"));
  EXPECT_THAT(refusal("bf16:1"), HasSubstr("takes no block"));
  EXPECT_THAT(
      refusal("int4:128+had64"),
      HasSubstr("unknown option 'had64'; the options of 'int4' are: asym, had32, s32, sr, wide"));
  EXPECT_THAT(refusal("int4+wide+wide"), HasSubstr("option 'wide' is given twice"));
  EXPECT_THAT(refusal("int4+wide+s32+asym"),
              HasSubstr("options 'asym' and 'wide' exclude each other: "));
  EXPECT_THAT(refusal("int4+had32+asym"),
              HasSubstr("options 'asym' and 'had32' exclude each other: "));
  EXPECT_THAT(refusal("int4:128+"), HasSubstr("unknown option ''"));
  EXPECT_THAT(refusal("none+sr+sr"), HasSubstr("unknown option 'sr'"));
  EXPECT_THAT(refusal(""), HasSubstr("names no format"));
  EXPECT_THAT(refusal(":256"), HasSubstr("names no format"));
  EXPECT_THAT(refusal("+sr"), HasSubstr("names no format"));
}

TEST(CodecGrammar, RefusalsAreOneShortLine) {
  std::size_t longest = 200;  // beside the names of all formats, which some refusals list
  for (const codec::FormatInfo& format : codec::formats()) longest += format.name.size() + 2;
  for (const std::string& text :
       {std::string("in\nt8"), std::string("int8:\t\n5"), std::string(100000, 'x'),
        std::string("int8:") + std::string(100000, '1'), std::string("int8+\0\x7F", 7)}) {
    const std::string message = refusal(text);
    EXPECT_LT(message.size(), longest);
    EXPECT_TRUE(std::ranges::all_of(message, [](char c) { return c >= ' ' && c <= '~'; }))
        << message;
  }
}

TEST(CodecValidation, TakesWhatTheParserMakes) {
  for (const codec::FormatInfo& format : codec::formats()) {
    const CodecSpec parsed = parse_codec(format.name);
    EXPECT_EQ(codec::validated(parsed), parsed);
    EXPECT_EQ(codec::validated({std::string(format.name), 0, {}}), parsed) << "the default block";
  }
  EXPECT_EQ(codec::validated({"int4", 128, {"wide", "sr"}}), parse_codec("int4:128+sr+wide"));
}

TEST(CodecValidation, RefusesInTheWordsOfTheParser) {
  for (const CodecSpec& spec :
       {CodecSpec{"int8", 48, {}}, CodecSpec{"int9", 0, {}}, CodecSpec{"none", 64, {}},
        CodecSpec{"int8", 256, {"round"}}, CodecSpec{"int4", 128, {"wide", "wide"}},
        CodecSpec{"int4", 128, {"asym", "wide"}}, CodecSpec{"", 0, {}}}) {
    const std::string text = to_string(spec);
    try {
      (void)codec::validated(spec);
      ADD_FAILURE() << text;
    } catch (const std::invalid_argument& error) {
      EXPECT_EQ(error.what(), refusal(text));
    }
  }
}

TEST(CodecBinding, RefusesWhatTheParserRefuses) {
  EXPECT_THROW(Codec({"int8", 48, {}}, Dtype::fp32), std::invalid_argument);
  EXPECT_THROW(Codec({"int9", 0, {}}, Dtype::fp32), std::invalid_argument);
  EXPECT_THROW(Codec({"none", 64, {}}, Dtype::fp32), std::invalid_argument);
  EXPECT_THROW(Codec({"int8", 256, {"round"}}, Dtype::fp32), std::invalid_argument);
}

}  // namespace
}  // namespace zeropp::test
