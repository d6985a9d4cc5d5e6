// ctest: name=data_sampler labels=sanitize
#include <gmock/gmock.h>

#include <set>

#include "lib/base/error.hpp"
#include "lib/data/sampler.hpp"

namespace zeropp::data {
namespace {

using testing::HasSubstr;

/// Token i of a part is i (training) or 1000000 + i (held out): where a sequence began is written
/// in it.
class Counting final : public TokenSource {
 public:
  Counting(std::size_t train, std::size_t held_out) : train_(train), held_out_(held_out) {}
  [[nodiscard]] std::string description() const override { return "counting"; }
  [[nodiscard]] std::size_t vocab_size() const override { return 2000000; }
  [[nodiscard]] std::size_t tokens(Part part) const override {
    return part == Part::train ? train_ : held_out_;
  }
  void read(Part part, std::size_t first, std::span<std::int32_t> out) const override {
    ASSERT_LE(first + out.size(), tokens(part));
    for (std::size_t i = 0; i < out.size(); ++i) {
      out[i] = static_cast<std::int32_t>(first + i) + (part == Part::train ? 0 : 1000000);
    }
  }

 private:
  std::size_t train_;
  std::size_t held_out_;
};

void expect_consecutive(const TokenBatch& batch) {
  for (std::size_t row = 0; row < batch.sequences; ++row) {
    for (std::size_t j = 0; j < batch.length; ++j) {
      const std::size_t i = row * batch.length + j;
      EXPECT_EQ(batch.tokens[i], batch.tokens[row * batch.length] + static_cast<std::int32_t>(j));
      EXPECT_EQ(batch.targets[i], batch.tokens[i] + 1);
    }
  }
}

std::vector<std::int32_t> beginnings(const TokenBatch& batch) {
  std::vector<std::int32_t> result;
  for (std::size_t row = 0; row < batch.sequences; ++row) {
    result.push_back(batch.tokens[row * batch.length]);
  }
  return result;
}

TEST(Sampler, TrainingBatchesDependOnTheirPlaceOnly) {
  const Counting source(100000, 1000);
  const Sampler sampler(source, 5, 16, 3);
  const Sampler again(source, 5, 16, 3);
  const Sampler reseeded(source, 6, 16, 3);
  TokenBatch batch;
  TokenBatch same;
  TokenBatch other;
  std::set<std::int32_t> seen;
  for (std::uint64_t step = 0; step < 3; ++step) {
    for (std::size_t micro_step = 0; micro_step < 2; ++micro_step) {
      for (std::size_t rank = 0; rank < 4; ++rank) {
        sampler.train(step, micro_step, {rank, 4}, batch);
        again.train(step, micro_step, {rank, 4}, same);
        reseeded.train(step, micro_step, {rank, 4}, other);
        expect_consecutive(batch);
        EXPECT_EQ(batch.tokens, same.tokens);
        EXPECT_NE(batch.tokens, other.tokens);
        const auto firsts = beginnings(batch);
        seen.insert(firsts.begin(), firsts.end());
      }
    }
  }
  EXPECT_GT(seen.size(), 70U) << "72 draws from 100000 places";
}

/// Steps read the same sequences, whether 4 ranks take 2 micro-steps, 2 ranks 4, or 8 ranks one.
TEST(Sampler, AStepReadsTheSameSequencesOnAnyLayout) {
  const Counting source(100000, 1000);
  const Sampler sampler(source, 5, 16, 3);
  TokenBatch batch;
  std::set<std::multiset<std::int32_t>> steps;
  for (const auto& [world_size, micro_steps] : {std::pair{4U, 2U}, {2U, 4U}, {8U, 1U}, {1U, 8U}}) {
    std::multiset<std::int32_t> step;
    for (std::size_t micro_step = 0; micro_step < micro_steps; ++micro_step) {
      for (std::size_t rank = 0; rank < world_size; ++rank) {
        sampler.train(9, micro_step, {rank, world_size}, batch);
        const auto firsts = beginnings(batch);
        step.insert(firsts.begin(), firsts.end());
      }
    }
    steps.insert(step);
  }
  EXPECT_EQ(steps.size(), 1U);
}

TEST(Sampler, EveryPlaceCanBeDrawn) {
  const Counting source(16 + 8, 100);
  const Sampler sampler(source, 1, 16, 4);
  TokenBatch batch;
  std::set<std::int32_t> seen;
  for (std::uint64_t step = 0; step < 200; ++step) {
    sampler.train(step, 0, {}, batch);
    const auto firsts = beginnings(batch);
    seen.insert(firsts.begin(), firsts.end());
  }
  EXPECT_THAT(seen, testing::ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
}

TEST(Sampler, HeldOutBatchesCoverEachSequenceOnce) {
  const Counting source(1000, 1 + 16 * 26);
  const Sampler sampler(source, 5, 16, 2);
  TokenBatch batch;
  for (const std::size_t world_size : {1U, 3U, 4U}) {
    std::set<std::int32_t> seen;
    const std::size_t batches = sampler.held_out_batches(world_size);
    EXPECT_EQ(batches, 26 / (2 * world_size));
    for (std::size_t index = 0; index < batches; ++index) {
      for (std::size_t rank = 0; rank < world_size; ++rank) {
        sampler.held_out(index, {rank, world_size}, batch);
        expect_consecutive(batch);
        for (const std::int32_t first : beginnings(batch)) {
          EXPECT_GE(first, 1000000) << "a training token";
          EXPECT_TRUE(seen.insert(first).second);
        }
      }
    }
    EXPECT_EQ(seen.size(), batches * 2 * world_size);
    EXPECT_EQ(*seen.rbegin(), 1000000 + 16 * static_cast<std::int32_t>(seen.size() - 1));
  }
}

std::string refusal(const auto& action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::usage);
    return error.what();
  }
  return "";
}

TEST(Sampler, PartsThatAreTooShortAreRefused) {
  const Counting short_train(16, 1000);
  const Counting short_held_out(1000, 16);
  const Counting just_enough(17, 17);
  EXPECT_THAT(refusal([&] { Sampler(short_train, 1, 16, 1); }),
              HasSubstr("the training part of token source 'counting' has 16 tokens, and one "
                        "sequence takes 17"));
  EXPECT_THAT(refusal([&] { Sampler(short_held_out, 1, 16, 1); }), HasSubstr("held-out part"));
  const Sampler sampler(just_enough, 1, 16, 1);
  EXPECT_EQ(sampler.held_out_batches(1), 1U);
  EXPECT_THAT(refusal([&] { (void)sampler.held_out_batches(2); }),
              HasSubstr("one batch of all 2 ranks takes 2"));
  TokenBatch batch;
  sampler.train(0, 0, {}, batch);
  EXPECT_EQ(batch.tokens.front(), 0);
  EXPECT_EQ(batch.targets.back(), 16);
}

}  // namespace
}  // namespace zeropp::data
