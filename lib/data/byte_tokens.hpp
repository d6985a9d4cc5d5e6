// Tokens of at most one byte each in memory, the end of them held out: what the sources with small
// vocabularies share.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "lib/data/token_source.hpp"

namespace zeropp::data {

class ByteTokens {
 public:
  ByteTokens() = default;
  ByteTokens(std::vector<std::uint8_t> tokens, double held_out_fraction)
      : tokens_(std::move(tokens)), train_(trained_on(tokens_.size(), held_out_fraction)) {}

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
