// Tokens of at most one byte each in memory, the end of them held out: what the sources with small
// vocabularies share.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "lib/data/token_source.hpp"

namespace zeropp::data {

class ByteTokens {
 public:
  ByteTokens() = default;
  /// The last ceil(fraction * size) tokens are held out.
  ByteTokens(std::vector<std::uint8_t> tokens, double held_out_fraction)
      : tokens_(std::move(tokens)) {
    const auto size = static_cast<double>(tokens_.size());
    const auto held_out = static_cast<std::size_t>(std::ceil(size * held_out_fraction));
    train_ = tokens_.size() - std::min(held_out, tokens_.size());
  }

  [[nodiscard]] std::size_t size(Part part) const {
    return part == Part::train ? train_ : tokens_.size() - train_;
  }
  void read(Part part, std::size_t first, std::span<std::int32_t> out) const {
    const std::size_t begin = first + (part == Part::train ? 0 : train_);
    std::copy_n(tokens_.begin() + static_cast<std::ptrdiff_t>(begin), out.size(), out.begin());
  }

 private:
  std::vector<std::uint8_t> tokens_;
  std::size_t train_ = 0;
};

}  // namespace zeropp::data
