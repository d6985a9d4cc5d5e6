#include "lib/model/token_masking.hpp"

#include <algorithm>
#include <utility>

#include "kernels/core/counter_rng.hpp"

namespace zeropp::model {

namespace {

constexpr std::uint64_t kKey = 0x6D61736B65642E2EU;  // of the first link of every chain

/// A key that any change of any token changes.
std::uint64_t key_of(std::span<const std::int32_t> sequence) {
  std::uint64_t key = kKey;
  for (const std::int32_t token : sequence) {
    const Random4 link = philox4x32(key, static_cast<std::uint64_t>(token), sequence.size());
    key = link.word[0] | static_cast<std::uint64_t>(link.word[1]) << 32U;
  }
  return key;
}

/// Token that a token that is to be predicted is replaced by.
std::int32_t replacement(std::int32_t token, const Random4& draw, std::size_t vocab) {
  constexpr double kMask = 0.8;
  constexpr double kRandom = 0.9;  // of the rest up to here
  const double choice = static_cast<double>(uniform01(draw.word[2]));
  if (choice < kMask) return static_cast<std::int32_t>(vocab);
  if (choice < kRandom) return static_cast<std::int32_t>(draw.word[3] % vocab);
  return token;
}

void mask_sequence(std::span<const std::int32_t> sequence, std::size_t vocab,
                   std::span<std::int32_t> tokens, std::span<std::int32_t> targets) {
  const std::uint64_t key = key_of(sequence);
  // The positions with the smallest draws: all sets of so many are equally likely.
  std::vector<std::pair<std::uint64_t, std::size_t>> order;
  for (std::size_t t = 0; t < sequence.size(); ++t) {
    const Random4 draw = philox4x32(key, t, 0);
    order.emplace_back(draw.word[0] | static_cast<std::uint64_t>(draw.word[1]) << 32U, t);
  }
  const auto last = order.begin() + static_cast<std::ptrdiff_t>(masked_tokens(sequence.size()));
  std::nth_element(order.begin(), last - 1, order.end());
  std::copy(sequence.begin(), sequence.end(), tokens.begin());
  std::fill(targets.begin(), targets.end(), kNoTarget);
  for (auto chosen = order.begin(); chosen != last; ++chosen) {
    const std::size_t t = chosen->second;
    targets[t] = sequence[t];
    tokens[t] = replacement(sequence[t], philox4x32(key, t, 0), vocab);
  }
}

}  // namespace

std::size_t masked_tokens(std::size_t length) {
  return std::max<std::size_t>(1, (15 * length + 50) / 100);
}

void mask_tokens(std::span<const std::int32_t> tokens, std::size_t length, std::size_t vocab,
                 MaskedBatch& masked) {
  masked.tokens.resize(tokens.size());
  masked.targets.resize(tokens.size());
  for (std::size_t first = 0; first < tokens.size(); first += length) {
    mask_sequence(tokens.subspan(first, length), vocab,
                  std::span(masked.tokens).subspan(first, length),
                  std::span(masked.targets).subspan(first, length));
  }
}

}  // namespace zeropp::model
