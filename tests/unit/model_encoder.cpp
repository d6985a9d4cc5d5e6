// ctest: name=model_encoder timeout=60 labels=sanitize
// The encoder as the engine sees it: which tokens it masks, its units, that tokens attend to both
// sides, its gradient by finite differences, what it refuses, and that it learns.
#include <algorithm>
#include <cmath>
#include <set>

#include "lib/base/error.hpp"
#include "lib/model/encoder.hpp"
#include "lib/model/gpt.hpp"
#include "tests/support/local_model.hpp"
#include "tests/support/nn_arrays.hpp"

namespace zeropp::model {
namespace {

constexpr std::size_t kVocab = 13;

Options small_encoder(bool tied) {
  Options options;
  options.name = "encoder";
  options.num_layers = 2;
  options.hidden_size = 24;
  options.num_attention_heads = 3;
  options.seq_length = 20;
  options.tied_head = tied;
  return options;
}

template <class Model>
struct EncoderFixture {
  explicit EncoderFixture(const Options& options, std::size_t micro_batch = 2)
      : model(
            options,
            {.micro_batch = micro_batch, .vocab_size = kVocab, .device = device, .timers = timers}),
        local(model) {
    local.initialise(7, 0.1F);
  }
  Device device = Device::host();
  trace::Timers timers;
  Model model;
  test::LocalModel local;
};

TEST(TokenMasking, TakesAFixedShareOfEverySequence) {
  EXPECT_EQ(masked_tokens(1), 1U);
  EXPECT_EQ(masked_tokens(10), 2U);
  EXPECT_EQ(masked_tokens(100), 15U);
  for (const std::size_t length : {1U, 2U, 7U, 20U, 128U}) {
    const auto tokens = test::tokens(5 * length, kVocab, length);
    MaskedBatch masked;
    mask_tokens(tokens, length, kVocab, masked);
    ASSERT_EQ(masked.tokens.size(), tokens.size());
    for (std::size_t s = 0; s < 5; ++s) {
      std::size_t count = 0;
      for (std::size_t i = s * length; i < (s + 1) * length; ++i) {
        const bool chosen = masked.targets[i] != kNoTarget;
        count += chosen ? 1 : 0;
        if (chosen) {
          EXPECT_EQ(masked.targets[i], tokens[i]);
          EXPECT_LE(masked.tokens[i], static_cast<std::int32_t>(kVocab));
          EXPECT_GE(masked.tokens[i], 0);
        } else {
          EXPECT_EQ(masked.tokens[i], tokens[i]);
        }
      }
      EXPECT_EQ(count, masked_tokens(length)) << "sequence " << s << " of " << length;
    }
  }
}

/// 80, 10 and 10 %, at every position alike; four standard deviations.
TEST(TokenMasking, ReplacesMostByTheMaskToken) {
  constexpr std::size_t kLength = 40;
  constexpr std::size_t kSequences = 5000;
  constexpr std::size_t kMany = 1000;  // of a vocabulary: a random token is hardly the same
  const auto tokens = test::tokens(kSequences * kLength, kMany, 3);
  MaskedBatch masked;
  mask_tokens(tokens, kLength, kMany, masked);
  std::vector<double> at(kLength);
  double mask = 0;
  double kept = 0;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (masked.targets[i] == kNoTarget) continue;
    ++at[i % kLength];
    mask += masked.tokens[i] == static_cast<std::int32_t>(kMany) ? 1 : 0;
    kept += masked.tokens[i] == tokens[i] ? 1 : 0;
  }
  const double all = 6.0 * kSequences;
  EXPECT_NEAR(mask / all, 0.8, 4 * std::sqrt(0.8 * 0.2 / all));
  EXPECT_NEAR(kept / all, 0.1, 4 * std::sqrt(0.1 * 0.9 / all) + 0.1 / kMany);
  for (const double count : at) {
    EXPECT_NEAR(count / kSequences, 0.15, 4.5 * std::sqrt(0.15 * 0.85 / kSequences));
  }
}

/// Which tokens are to be predicted.
std::vector<bool> chosen(const MaskedBatch& masked) {
  std::vector<bool> which(masked.targets.size());
  for (std::size_t i = 0; i < which.size(); ++i) which[i] = masked.targets[i] != kNoTarget;
  return which;
}

/// By the sequence alone: wherever it lies in a batch, and otherwise after any change.
TEST(TokenMasking, DependsOnTheSequenceAlone) {
  constexpr std::size_t kLength = 40;
  const auto tokens = test::tokens(6 * kLength, kVocab, 5);
  MaskedBatch together;
  mask_tokens(tokens, kLength, kVocab, together);
  std::set<std::vector<bool>> different;
  for (std::size_t s = 0; s < 6; ++s) {
    const auto first = static_cast<std::ptrdiff_t>(s * kLength);
    std::vector<std::int32_t> one(tokens.begin() + first, tokens.begin() + first + kLength);
    MaskedBatch alone;
    mask_tokens(one, kLength, kVocab, alone);
    EXPECT_TRUE(
        std::equal(alone.tokens.begin(), alone.tokens.end(), together.tokens.begin() + first));
    EXPECT_TRUE(
        std::equal(alone.targets.begin(), alone.targets.end(), together.targets.begin() + first));
    different.insert(chosen(alone));
    one.back() = (one.back() + 1) % static_cast<std::int32_t>(kVocab);
    mask_tokens(one, kLength, kVocab, alone);
    different.insert(chosen(alone));
  }
  EXPECT_EQ(different.size(), 12U);
}

TEST(Encoder, HasARowForTheMaskToken) {
  for (const bool tied : {true, false}) {
    const EncoderFixture<Encoder> encoder(small_encoder(tied));
    const EncoderFixture<Gpt> gpt(small_encoder(tied));
    ASSERT_EQ(encoder.model.units().size(), gpt.model.units().size());
    for (std::size_t u = 0; u < gpt.model.units().size(); ++u) {
      const auto& tensors = encoder.model.units()[u].tensors;
      for (std::size_t i = 0; i < tensors.size(); ++i) {
        auto shape = gpt.model.units()[u].tensors[i].shape;
        if (tensors[i].name == "wte.weight" || tensors[i].name == "lm_head.weight") ++shape[0];
        EXPECT_EQ(tensors[i].shape, shape) << tensors[i].name;
      }
    }
    EXPECT_DOUBLE_EQ(encoder.model.flops_per_token(), gpt.model.flops_per_token() + 6.0 * 24);
    const zero::MemoryReport memory = encoder.model.memory();
    EXPECT_EQ(memory.actual, memory.predicted);
  }
}

/// At the usual initial weights the loss is that of a uniform guess, whatever the share that
/// counts.
TEST(Encoder, FirstLossIsLogOfTheVocabulary) {
  EncoderFixture<Encoder> fixture(small_encoder(true));
  fixture.local.initialise(7);
  for (const std::size_t length : {1U, 7U, 20U}) {
    const auto tokens = test::tokens(2 * length, kVocab, 1);
    EXPECT_NEAR(fixture.local.forward({2, length, tokens, tokens}, false), std::log(14.0), 0.15);
  }
}

/// The loss of a masked token in the first half changes with a token after it.
TEST(Encoder, AttendsToBothSides) {
  EncoderFixture<Encoder> fixture(small_encoder(true), 1);
  // Every token is its neighbours' evidence: the gradient of the last position's embedding is not
  // zero, though the last token is none that counts.
  auto tokens = test::tokens(20, kVocab, 1);
  MaskedBatch masked;
  do {
    for (auto& token : tokens) token = (token * 7 + 3) % static_cast<std::int32_t>(kVocab);
    tokens[0] = (tokens[0] + 1) % static_cast<std::int32_t>(kVocab);
    mask_tokens(tokens, 20, kVocab, masked);
  } while (masked.targets.back() != kNoTarget);
  fixture.local.forward({1, 20, tokens, tokens}, true);
  fixture.local.backward(true);
  const zero::Tensor& positions = fixture.model.units()[0].tensors[1];
  double last = 0;
  for (std::size_t i = 0; i < 24; ++i) {
    last += std::abs(fixture.local.gradients[0][positions.offset + 19 * 24 + i]);
  }
  EXPECT_GT(last, 1e-6);
}

/// Central differences of the loss along a random direction in each tensor.
TEST(Encoder, GradientAgreesWithFiniteDifferences) {
  for (const bool tied : {true, false}) {
    EncoderFixture<Encoder> fixture(small_encoder(tied));
    const auto tokens = test::tokens(40, kVocab, 3);
    const zero::Batch batch{2, 20, tokens, tokens};
    fixture.local.forward(batch, true);
    fixture.local.backward(true);
    std::uint64_t stream = 100;
    for (std::size_t u = 0; u < fixture.model.units().size(); ++u) {
      for (const zero::Tensor& tensor : fixture.model.units()[u].tensors) {
        auto& weights = fixture.local.masters[u];
        const std::vector<float> original = weights;
        const test::Floats direction = test::normals(tensor.count(), ++stream);
        double expected = 0.0;
        double length = 0.0;
        for (std::size_t i = 0; i < tensor.count(); ++i) {
          expected +=
              test::d(direction[i]) * test::d(fixture.local.gradients[u][tensor.offset + i]);
          length += test::d(direction[i]) * test::d(direction[i]);
        }
        const double step = 2e-2 / std::sqrt(length);
        double loss[2];
        for (const int side : {0, 1}) {
          for (std::size_t i = 0; i < tensor.count(); ++i) {
            weights[tensor.offset + i] =
                original[tensor.offset + i] +
                static_cast<float>(side == 0 ? -step : step) * direction[i];
          }
          loss[side] = fixture.local.forward(batch, false);
        }
        weights = original;
        EXPECT_NEAR((loss[1] - loss[0]) / (2.0 * step), expected,
                    1e-2 * std::abs(expected) + 1e-4 * std::sqrt(length))
            << tensor.name;
      }
    }
  }
}

TEST(Encoder, RecomputingChangesNoBit) {
  Options options = small_encoder(true);
  EncoderFixture<Encoder> kept(options);
  options.recompute_activations = true;
  EncoderFixture<Encoder> recomputed(options);
  const auto tokens = test::tokens(40, kVocab, 3);
  const zero::Batch batch{2, 20, tokens, tokens};
  EXPECT_EQ(kept.local.forward(batch, true), recomputed.local.forward(batch, true));
  kept.local.backward(true);
  recomputed.local.backward(true);
  EXPECT_EQ(kept.local.gradients, recomputed.local.gradients);
  EXPECT_LT(recomputed.model.memory().actual, kept.model.memory().actual);
}

TEST(Encoder, RefusesTheMaskTokenAsInput) {
  EncoderFixture<Encoder> fixture(small_encoder(true));
  std::vector<std::int32_t> tokens(20, 12);
  EXPECT_NO_THROW(fixture.model.begin({1, 20, tokens, tokens}, true, {}));
  tokens[3] = static_cast<std::int32_t>(kVocab);
  EXPECT_THROW(fixture.model.begin({1, 20, tokens, tokens}, true, {}), Error);
  tokens.resize(21, 0);
  EXPECT_THROW(fixture.model.begin({1, 21, tokens, tokens}, true, {}), Error);
}

}  // namespace
}  // namespace zeropp::model
