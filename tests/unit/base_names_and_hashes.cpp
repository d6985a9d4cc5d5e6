// ctest: name=base_names_and_hashes timeout=30 labels=sanitize
// Nearest names against a brute-force distance; texts as messages show them, and their parts;
// SHA-256 against the standard's own examples.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "lib/base/nearest.hpp"
#include "lib/base/sha256.hpp"
#include "lib/base/text.hpp"

namespace zeropp {
namespace {

/// The definition, recursively: exponential, for short texts.
std::size_t distance_by_definition(std::string_view a, std::string_view b) {
  if (a.empty() || b.empty()) return a.size() + b.size();
  std::size_t best = std::min(distance_by_definition(a.substr(1), b) + 1,
                              distance_by_definition(a, b.substr(1)) + 1);
  best = std::min(best, distance_by_definition(a.substr(1), b.substr(1)) + (a[0] == b[0] ? 0 : 1));
  if (a.size() > 1 && b.size() > 1 && a[0] == b[1] && a[1] == b[0]) {
    best = std::min(best, distance_by_definition(a.substr(2), b.substr(2)) + 1);
  }
  return best;
}

TEST(Nearest, DistanceEqualsItsDefinition) {
  std::mt19937 random(7);
  for (int trial = 0; trial < 300; ++trial) {
    std::string a(random() % 6, ' ');
    std::string b(random() % 6, ' ');
    for (char& c : a) c = static_cast<char>('a' + random() % 3);
    for (char& c : b) c = static_cast<char>('a' + random() % 3);
    EXPECT_EQ(edit_distance(a, b), distance_by_definition(a, b)) << a << " " << b;
  }
}

TEST(Shown, IsCutBetweenCharactersAndHasNoNul) {
  EXPECT_EQ(shown("as it is"), "as it is");
  EXPECT_EQ(shown(std::string("a\0b\n\x7f", 5)), "a\\x00b\\x0a\\x7f");
  EXPECT_EQ(shown(std::string(201, 'k')), std::string(200, 'k') + "... (201 bytes)");
  std::string text = "x";
  for (int i = 0; i < 150; ++i) text += "\xC3\xA4";
  EXPECT_EQ(shown(text), text.substr(0, 199) + "... (301 bytes)");
}

TEST(Split, KeepsEmptyParts) {
  using Parts = std::vector<std::string>;
  EXPECT_EQ(split("1,2,4", ','), (Parts{"1", "2", "4"}));
  EXPECT_EQ(split("8x16", 'x'), (Parts{"8", "16"}));
  EXPECT_EQ(split(",a,", ','), (Parts{"", "a", ""}));
  EXPECT_EQ(split("", ','), Parts{""});
}

TEST(Nearest, FindsTheName) {
  const std::vector<std::string> known{"flat", "native", "two-level"};
  EXPECT_EQ(nearest("two-levle", known), "two-level");
  EXPECT_EQ(nearest("flt", known), "flat");
  EXPECT_EQ(nearest("", {}), "");
  EXPECT_EQ(nearest("8bit", {"fp32", "bf16", "int8"}), "int8");
  EXPECT_EQ(nearest("fp8", {"fp16", "mxfp8", "fp8e4m3"}), "fp8e4m3");
  EXPECT_EQ(nearest("lr2", {"beta2", "lr"}), "lr");
  EXPECT_EQ(alike("two-levle", known), "two-level");
  EXPECT_EQ(alike("8bit", {"fp32", "bf16", "int8"}), "int8");
  EXPECT_EQ(alike("tw", known), "two-level");
  EXPECT_EQ(alike("FLAT2", known), "flat");
  EXPECT_EQ(alike("gloo", {"auto", "mpi", "nccl"}), "");
  EXPECT_EQ(alike("", known), "");
  EXPECT_EQ(alike("x", {}), "");
}

TEST(Sha256, StandardExamples) {
  EXPECT_EQ(sha256_hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256_hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  Sha256 pieces;
  for (int i = 0; i < 1000; ++i) pieces.update(std::string(1000, 'a'));
  EXPECT_EQ(pieces.hex(), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

}  // namespace
}  // namespace zeropp
