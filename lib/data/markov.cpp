#include "lib/data/markov.hpp"

#include <cmath>
#include <numeric>

#include "kernels/core/counter_rng.hpp"

namespace zeropp::data {

namespace {

constexpr std::uint64_t kKey = 0x6D61726B6F763634U;
constexpr std::uint32_t kTotal = 1U << 16U;  ///< what the counts of a row sum to
// Streams of the generator: which successors, their weights, and the walk.
enum Stream : std::uint64_t { kSuccessor, kWeight, kWalk };

}  // namespace

double Markov::Row::probability(std::size_t k) const {
  const std::uint32_t below = k == 0 ? 0 : cumulative[k - 1];
  return static_cast<double>(cumulative[k] - below) / kTotal;
}

Markov::Row Markov::make_row(std::size_t from) {
  // The first kSuccessors of a shuffle of all tokens, begun with the next one round the circle.
  std::array<std::uint8_t, kVocab> order{};
  std::iota(order.begin(), order.end(), std::uint8_t{0});
  std::swap(order[0], order[(from + 1) % kVocab]);
  Row row;
  std::array<double, kSuccessors> weight{};
  for (std::size_t k = 0; k < kSuccessors; ++k) {
    const std::uint64_t counter = from * kSuccessors + k;
    if (k > 0) {
      const std::size_t other = k + philox4x32(kKey, counter, kSuccessor).word[0] % (kVocab - k);
      std::swap(order[k], order[other]);
    }
    row.successor[k] = order[k];
    // Squares spread the weights: some successors are likely, some rare.
    const double u = static_cast<double>(uniform01(philox4x32(kKey, counter, kWeight).word[0]));
    weight[k] = 0.02 + u * u;
  }
  const double sum = std::accumulate(weight.begin(), weight.end(), 0.0);
  double below = 0.0;
  for (std::size_t k = 0; k < kSuccessors; ++k) {
    below += weight[k];
    row.cumulative[k] = static_cast<std::uint32_t>(std::lround(below / sum * kTotal));
  }
  return row;
}

std::vector<std::uint8_t> Markov::make_stream() const {
  // Draws are made before the tokens that need them: draws do not wait for each other, tokens do.
  std::array<std::uint32_t, 256> draws{};
  static_assert(kTokens % draws.size() == 0);
  std::vector<std::uint8_t> stream(kTokens);
  std::uint8_t token = 0;
  for (std::size_t begin = 0; begin < kTokens; begin += draws.size()) {
    for (std::size_t i = 0; i < draws.size(); ++i) {
      draws[i] = philox4x32(kKey, begin + i, kWalk).word[0] % kTotal;
    }
    for (std::size_t i = 0; i < draws.size(); ++i) {
      const Row& row = rows_[token];
      // The first count above the draw; without a branch, which would be guessed wrong.
      std::size_t k = 0;
      for (const std::uint32_t count : row.cumulative) k += count <= draws[i] ? 1U : 0U;
      token = row.successor[k];
      stream[begin + i] = token;
    }
  }
  return stream;
}

Markov::Markov(double held_out_fraction) {
  for (std::size_t from = 0; from < kVocab; ++from) rows_[from] = make_row(from);
  stream_ = ByteTokens(make_stream(), held_out_fraction);
}

double Markov::probability(std::size_t from, std::size_t to) const {
  const Row& row = rows_[from];
  for (std::size_t k = 0; k < kSuccessors; ++k) {
    if (row.successor[k] == to) return row.probability(k);
  }
  return 0.0;
}

std::array<double, Markov::kVocab> Markov::stationary() const {
  std::array<double, kVocab> pi{};
  pi.fill(1.0 / static_cast<double>(kVocab));
  for (int iteration = 0; iteration < 2000; ++iteration) {
    // Half a step is taken: it keeps the distribution that a step keeps, and converges for periodic
    // chains too.
    std::array<double, kVocab> next{};
    for (std::size_t from = 0; from < kVocab; ++from) {
      next[from] += 0.5 * pi[from];
      for (std::size_t k = 0; k < kSuccessors; ++k) {
        next[rows_[from].successor[k]] += 0.5 * pi[from] * rows_[from].probability(k);
      }
    }
    pi = next;
  }
  return pi;
}

double Markov::entropy_bits() const {
  const auto pi = stationary();
  double entropy = 0.0;
  for (std::size_t from = 0; from < kVocab; ++from) {
    for (std::size_t k = 0; k < kSuccessors; ++k) {
      const double p = rows_[from].probability(k);
      if (p > 0.0) entropy -= pi[from] * p * std::log2(p);
    }
  }
  return entropy;
}

}  // namespace zeropp::data
