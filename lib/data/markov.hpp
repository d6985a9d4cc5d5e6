// The built-in source: a Markov chain of order 1 over 64 tokens whose entropy rate is known, so
// that a loss can be judged without any file. The chain and its stream come from the counter-based
// generator with a fixed key: the same tokens on every rank and in every run.
//
// Each token has 8 successors: the next token round the circle (which makes the chain irreducible)
// and 7 others, with probabilities that are multiples of 2^-16. Entropy rate = - sum over i of pi_i
// sum over j of P_ij log2 P_ij, pi the stationary distribution.
#pragma once

#include <array>

#include "lib/data/byte_tokens.hpp"

namespace zeropp::data {

class Markov final : public TokenSource {
 public:
  static constexpr std::size_t kVocab = 64;
  static constexpr std::size_t kSuccessors = 8;
  static constexpr std::size_t kTokens = std::size_t{1} << 21U;

  explicit Markov(double held_out_fraction);

  [[nodiscard]] std::string description() const override { return "markov"; }
  [[nodiscard]] std::size_t vocab_size() const override { return kVocab; }
  [[nodiscard]] std::size_t tokens(Part part) const override { return stream_.size(part); }
  void read(Part part, std::size_t first, std::span<std::int32_t> out) const override {
    stream_.read(part, first, out);
  }
  [[nodiscard]] double entropy_bits() const override;

  /// Probability P(to | from) of the next token.
  [[nodiscard]] double probability(std::size_t from, std::size_t to) const;
  /// The distribution that one more step of the chain leaves as it is.
  [[nodiscard]] std::array<double, kVocab> stationary() const;

 private:
  /// Successors of a token, and the counts out of 2^16 summed up to and including each.
  struct Row {
    std::array<std::uint8_t, kSuccessors> successor{};
    std::array<std::uint32_t, kSuccessors> cumulative{};

    [[nodiscard]] double probability(std::size_t k) const;
  };
  static Row make_row(std::size_t from);
  [[nodiscard]] std::vector<std::uint8_t> make_stream() const;

  std::array<Row, kVocab> rows_{};
  ByteTokens stream_;
};

}  // namespace zeropp::data
