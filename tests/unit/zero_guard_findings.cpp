// ctest: name=zero_guard_findings labels=sanitize
// Conclusions from the digests of all ranks: who is damaged, in which unit, and what is said of it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "lib/zero/plan/guard_findings.hpp"

namespace zeropp::zero {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

const std::vector<std::string> kUnitNames{"embedding", "h.0"};

/// Words of ranks that agree on everything.
class Words {
 public:
  explicit Words(std::size_t ranks) {
    setting.units = kUnitNames;
    setting.ranks = ranks;
    setting.stride = kHeaderWords + kSeen * kUnitNames.size() + 1;
    setting.has_left = true;
    setting.cut.assign(kUnitNames.size(), true);
    words.assign(ranks * setting.stride, 0);
    for (std::size_t r = 0; r < ranks; ++r) {
      for (std::size_t u = 0; u < kUnitNames.size(); ++u) {
        for (std::size_t seen = 0; seen < kSeen; ++seen) at(static_cast<Seen>(seen), u, r) = 7 + u;
      }
    }
  }

  std::uint64_t& at(Seen seen, std::size_t unit, std::size_t rank) {
    return words[rank * setting.stride + kHeaderWords +
                 static_cast<std::size_t>(seen) * kUnitNames.size() + unit];
  }
  std::uint64_t& header(Header word, std::size_t rank) {
    return words[rank * setting.stride + static_cast<std::size_t>(word)];
  }
  [[nodiscard]] std::vector<Finding> found() const { return findings_of(setting, words); }

  GuardSetting setting;
  std::vector<std::uint64_t> words;
};

TEST(GuardFindings, AreNoneWhereRanksAgree) {
  for (const std::size_t ranks : {1U, 2U, 5U}) EXPECT_THAT(Words(ranks).found(), IsEmpty());
}

TEST(GuardFindings, NameTheRanksThatDifferFromTheMajority) {
  for (const Seen seen : {Seen::resident, Seen::gathered, Seen::inside, Seen::gradients}) {
    Words words(5);
    words.at(seen, 1, 3) = 1;
    words.at(seen, 1, 4) = 2;
    const std::vector<Finding> found = words.found();
    ASSERT_EQ(found.size(), 1U);
    EXPECT_THAT(found.front().ranks, ElementsAre(3, 4));
    EXPECT_TRUE(found.front().certain);
    EXPECT_NE(found.front().what.find("h.0"), std::string::npos) << found.front().what;
  }
}

TEST(GuardFindings, NameAllWhereThereIsNoMajority) {
  Words words(4);
  words.at(Seen::gathered, 0, 0) = words.at(Seen::gathered, 0, 1) = 1;
  const std::vector<Finding> found = words.found();
  ASSERT_EQ(found.size(), 1U);
  EXPECT_THAT(found.front().ranks, ElementsAre(0, 1, 2, 3));
  EXPECT_FALSE(found.front().certain);
  EXPECT_THAT(damage_line(12, found, {}),
              testing::StartsWith("step 12 is damaged on one of ranks 0-3: gathered weights of "
                                  "embedding are not the other ranks': take "));
}

TEST(GuardFindings, AreOfTheRanksThatHoldTheSame) {
  Words words(4);
  for (std::size_t r = 0; r < 4; ++r) {
    words.header(Header::secondary, r) = words.header(Header::shard, r) = r % 2;
    for (const Seen seen :
         {Seen::secondary, Seen::cut, Seen::gradients, Seen::at_rest, words.setting.left}) {
      words.at(seen, 0, r) = 100 + r % 2;
    }
  }
  EXPECT_THAT(words.found(), IsEmpty());
  words.at(Seen::gradients, 0, 3) = 5;
  ASSERT_EQ(words.found().size(), 1U);
  EXPECT_THAT(words.found().front().ranks, ElementsAre(1, 3));
}

TEST(GuardFindings, NameTheRankWhoseOwnMemoryChanged) {
  Words words(2);
  words.at(Seen::at_rest, 1, 1) = 5;
  std::vector<Finding> found = words.found();
  ASSERT_FALSE(found.empty());
  EXPECT_THAT(found.front().ranks, ElementsAre(1));
  EXPECT_EQ(found.front().what, "master weights or moments of h.0 changed between two updates");

  words = Words(2);
  words.at(Seen::secondary, 0, 0) = 5;
  found = words.found();
  ASSERT_FALSE(found.empty());
  EXPECT_THAT(found.front().ranks, ElementsAre(0));
  EXPECT_EQ(found.front().what, "hpZ's shard of embedding is not what was cut for it");
}

TEST(GuardFindings, CompareNothingThatWasNotDigested) {
  Words words(1);
  words.at(Seen::at_rest, 1, 0) = 5;
  words.at(Seen::secondary, 0, 0) = 5;
  words.setting.has_left = false;
  words.setting.cut.assign(kUnitNames.size(), false);
  EXPECT_THAT(words.found(), IsEmpty());
}

TEST(GuardFindings, TellTheReceiverOfTwoRanksFromTheSender) {
  // Each rank's own part is its shard; rank 0 has another part of rank 1 than rank 1 itself.
  Words words(2);
  for (std::size_t r = 0; r < 2; ++r) {
    words.at(Seen::own_part, 0, r) = words.at(Seen::own_shard, 0, r) = 10 + r;
    words.at(Seen::gathered, 0, r) = 10 + 11;
  }
  EXPECT_THAT(words.found(), IsEmpty());
  words.at(Seen::gathered, 0, 0) += 3;
  ASSERT_EQ(words.found().size(), 1U);
  EXPECT_THAT(words.found().front().ranks, ElementsAre(0));
  EXPECT_TRUE(words.found().front().certain);

  // Without the shard nobody can tell.
  words.at(Seen::own_shard, 0, 0) = words.at(Seen::own_part, 0, 0) = 0;
  words.at(Seen::own_shard, 0, 1) = words.at(Seen::own_part, 0, 1) = 0;
  ASSERT_EQ(words.found().size(), 1U);
  EXPECT_THAT(words.found().front().ranks, ElementsAre(0, 1));
  EXPECT_FALSE(words.found().front().certain);
}

TEST(GuardFindings, SayFirstWhatExplainsTheRest) {
  Words words(3);
  words.at(Seen::gathered, 0, 1) = 1;
  words.header(Header::wrong_update, 2) = 2;
  const std::vector<Finding> found = words.found();
  ASSERT_EQ(found.size(), 2U);
  const std::vector<std::string> hosts{"a", "b", "c"};
  EXPECT_EQ(damage_line(3, found, hosts),
            "step 3 is damaged on rank 2 (c): the update of h.0 did not give what its optimizer "
            "computes, the first of 2 differences: take the host out of the job, test it with "
            "zpp_fabric and dcgmi diag -r 3, and resume from the last checkpoint");
}

}  // namespace
}  // namespace zeropp::zero
