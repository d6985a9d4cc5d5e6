// ctest: name=checkpoint_manifest timeout=60 labels=sanitize
// The manifest as text: everything comes back; what was changed, cut or is not whole is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "lib/base/error.hpp"
#include "lib/base/sha256.hpp"
#include "lib/checkpoint/manifest.hpp"

namespace zeropp::checkpoint {
namespace {

using nlohmann::json;
using testing::HasSubstr;

StoredSlice stored(Slice slice, std::uint64_t rank, std::uint64_t position) {
  StoredSlice made;
  made.digests.assign(slice.count == 0 ? 0 : 1, std::string(64, 'a'));
  made.slice = std::move(slice);
  made.rank = rank;
  made.position = position;
  return made;
}

Manifest sample() {
  Manifest made;
  made.step = 12;
  made.world_size = 2;
  made.state = R"({"seed": 3})";
  made.slices.push_back(stored({"w", 4, 10, 0, 6}, 0, 0));
  made.slices.push_back(stored({"w", 4, 10, 6, 4}, 1, 0));
  made.slices.push_back(stored({"empty", 2, 0, 0, 0}, 1, 16));
  return made;
}

/// The sample with something changed, digested again: as one would write it who means harm.
std::string forged(const std::function<void(json&)>& change) {
  json document = json::parse(to_text(sample()));
  document.erase("sha256");
  change(document);
  document["sha256"] = sha256_hex(document.dump());
  return document.dump();
}

std::string refusal(const std::string& text) {
  try {
    (void)parse_manifest(text, "FILE");
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::io);
    EXPECT_THAT(error.what(), testing::StartsWith("FILE is not a checkpoint's manifest: "));
    return error.what();
  }
  return "";
}

TEST(CheckpointManifest, ComesBack) {
  const Manifest back = parse_manifest(to_text(sample()), "FILE");
  EXPECT_EQ(back.step, 12U);
  EXPECT_EQ(back.world_size, 2U);
  EXPECT_EQ(back.state, sample().state);
  EXPECT_EQ(to_text(back), to_text(sample()));
  EXPECT_EQ(slices_to_text(slices_from_text(slices_to_text(back.slices), 2)),
            slices_to_text(sample().slices));
}

TEST(CheckpointManifest, EveryChangeOfACharacterIsFound) {
  const std::string text = to_text(sample());
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (std::isspace(static_cast<unsigned char>(text[i])) != 0) continue;
    std::string changed = text;
    changed[i] = changed[i] == '1' ? '2' : '1';
    EXPECT_NE(refusal(changed), "") << "at " << i;
    EXPECT_NE(refusal(text.substr(0, i)), "") << "cut at " << i;
  }
}

TEST(CheckpointManifest, WhatIsNotWholeIsRefused) {
  const auto slice = [](std::size_t index, const char* key, const json& value) {
    return [=](json& document) { document["slices"][index][key] = value; };
  };
  EXPECT_EQ(refusal(forged([](json&) {})), "");
  EXPECT_THAT(refusal(forged(slice(1, "offset", 7))), HasSubstr("'count' is no whole number"));
  EXPECT_THAT(refusal(forged(slice(0, "count", 5))), HasSubstr("'w' lacks element 5"));
  EXPECT_THAT(refusal(forged(slice(1, "count", 3))), HasSubstr("'w' lacks element 9"));
  EXPECT_THAT(refusal(forged(slice(0, "count", 7))), HasSubstr("'w' has twice element 6"));
  EXPECT_THAT(refusal(forged(slice(1, "total", 11))), HasSubstr("are not of one array"));
  EXPECT_THAT(refusal(forged(slice(1, "element_bytes", 8))), HasSubstr("are not of one array"));
  EXPECT_THAT(refusal(forged(slice(1, "rank", 2))), HasSubstr("'rank'"));
  EXPECT_THAT(refusal(forged(slice(1, "rank", -1))), HasSubstr("'rank'"));
  EXPECT_THAT(refusal(forged(slice(1, "position", 1e9))), HasSubstr("'position'"));
  EXPECT_THAT(refusal(forged(slice(0, "total", std::uint64_t{1} << 60U))), HasSubstr("'total'"));
  EXPECT_THAT(refusal(forged(slice(0, "sha256", json::array()))), HasSubstr("'sha256'"));
  EXPECT_THAT(refusal(forged(slice(0, "sha256", {"short"}))), HasSubstr("'sha256'"));
  EXPECT_THAT(refusal(forged(slice(0, "array", 3))), HasSubstr("'array' is no text"));
  EXPECT_THAT(refusal(forged([](json& d) { d["slices"][0].erase("rank"); })),
              HasSubstr("'rank' is missing"));
  EXPECT_THAT(refusal(forged([](json& d) { d["slices"][0] = 1; })), HasSubstr("is no object"));
  EXPECT_THAT(refusal(forged([](json& d) { d["slices"] = "none"; })), HasSubstr("no object"));
  EXPECT_THAT(refusal(forged([](json& d) { d["slices"].erase(1); })), HasSubstr("lacks element 6"));
  EXPECT_THAT(refusal(forged([](json& d) { d["schema"] = "other"; })), HasSubstr("'schema'"));
  EXPECT_THAT(refusal(forged([](json& d) { d["schema_version"] = "9"; })), HasSubstr("is not 1.0"));
  EXPECT_THAT(refusal(forged([](json& d) { d["world_size"] = 0; })), HasSubstr("'world_size'"));
  EXPECT_THAT(refusal("[1]"), HasSubstr("is no object"));
  EXPECT_THAT(refusal(""), HasSubstr("is no object"));
  EXPECT_THAT(refusal(std::string(100'000, '[')), HasSubstr("nested deeper than 8"));
}

}  // namespace
}  // namespace zeropp::checkpoint
