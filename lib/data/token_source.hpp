// Sources of tokens: each has a training part and a held-out part, each a row of tokens that any
// rank can read anywhere. Which tokens make up a batch is the sampler's business
// (lib/data/sampler.hpp). Sources by name are a table in token_source.cpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/data/options.hpp"

namespace zeropp::data {

enum class Part : std::uint8_t { train, held_out };

class TokenSource {
 public:
  virtual ~TokenSource() = default;
  /// Description for messages and traces: "markov", or "text FILE" and so on.
  [[nodiscard]] virtual std::string description() const = 0;
  [[nodiscard]] virtual std::size_t vocab_size() const = 0;
  [[nodiscard]] virtual std::size_t tokens(Part part) const = 0;
  /// Copies tokens [first, first + out.size()) of `part`; the caller keeps them inside.
  virtual void read(Part part, std::size_t first, std::span<std::int32_t> out) const = 0;
  /// Entropy rate of the process that made the tokens, in bits per token: no model can have a lower
  /// expected loss. NaN where it is not known.
  [[nodiscard]] virtual double entropy_bits() const {
    return std::numeric_limits<double>::quiet_NaN();
  }
};

std::vector<std::string_view> source_names();

/// Number of `tokens` that are trained on: the last ceil(held_out_fraction * tokens) are held out.
std::size_t trained_on(std::size_t tokens, double held_out_fraction);

/// Throws Error(usage) for an unknown source, a path or vocabulary that is missing, or a fraction
/// outside (0, 1).
void validate(const Options& options);

/// Vocabulary size of the source, without opening it. Throws Error(usage) for an unknown one.
std::size_t vocab_size(const Options& options);

/// Validates, then opens the source. Throws Error(io) for a file that cannot be read, is empty, or
/// is not what the source reads.
std::unique_ptr<TokenSource> make_source(const Options& options);

/// SHA-256 over both parts: what ranks compare to know that they read the same tokens.
std::string fingerprint(const TokenSource& source);

/// Entropy in bits per token of the held-out part under its own token frequencies: what the best
/// model without context reaches on it.
double held_out_unigram_entropy_bits(const TokenSource& source);

}  // namespace zeropp::data
