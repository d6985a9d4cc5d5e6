// Pairs of 16-bit values and copies for exact differences, and the images that their description
// (kernels/codec/exact.hpp) asks for, written bit by bit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "kernels/codec/exact.hpp"
#include "kernels/core/half.hpp"

namespace zeropp::test {

using Patterns = std::vector<std::uint16_t>;

/// An integer in the order of the numbers, by sign and magnitude.
inline int in_order(std::uint16_t pattern) {
  const int magnitude = pattern & 0x7FFF;
  return (pattern & 0x8000) != 0 ? -1 - magnitude : magnitude;
}

inline unsigned reference_code(std::uint16_t value, std::uint16_t copy) {
  const auto difference = static_cast<std::int16_t>(in_order(value) - in_order(copy));
  return difference >= 0 ? 2U * static_cast<unsigned>(difference)
                         : 2U * static_cast<unsigned>(-(difference + 1)) + 1U;
}

inline codec::Escapes reference_escapes(const Patterns& values, const Patterns& copy) {
  codec::Escapes found{};
  for (std::size_t i = 0; i < values.size(); ++i) {
    for (unsigned w = 1; w <= codec::kExactWidths; ++w) {
      if (reference_code(values[i], copy[i]) >= (1U << w) - 1U) ++found[w - 1];
    }
  }
  return found;
}

inline std::vector<std::byte> reference_image(const Patterns& values, const Patterns& copy,
                                              const codec::ExactShape& shape) {
  const auto round_up = [](std::size_t bytes) { return (bytes + 15) / 16 * 16; };
  const std::size_t n = values.size();
  const unsigned width = shape.width;
  if (width == 0) return {};
  if (width == codec::kWholeWidth) {
    std::vector<std::byte> image(round_up(2 * n));
    if (n > 0) std::memcpy(image.data(), values.data(), 2 * n);
    return image;
  }
  const std::size_t blocks = (n + 1023) / 1024;
  const std::size_t offsets = blocks * 1024 * width / 8;
  const std::size_t escapes = offsets + round_up(4 * blocks);
  std::vector<std::byte> image(escapes + round_up(2 * shape.escapes));
  std::uint32_t found = 0;
  for (std::size_t i = 0; i < blocks * 1024; ++i) {
    if (i % 1024 == 0) std::memcpy(image.data() + offsets + i / 1024 * 4, &found, 4);
    const unsigned escape = (1U << width) - 1U;
    unsigned code = i < n ? reference_code(values[i], copy[i]) : 0U;
    if (code >= escape) {
      code = found < shape.escapes ? escape : 0;
      if (found < shape.escapes)
        std::memcpy(image.data() + escapes + found * std::size_t{2}, &values[i], 2);
      ++found;
    }
    unsigned shift = 0;
    for (const unsigned plane : {8U, 4U, 2U, 1U}) {
      if ((width & plane) == 0) continue;
      for (unsigned bit = 0; bit < plane; ++bit) {
        const std::size_t at = i * plane + bit;
        if ((code >> (shift + bit) & 1U) != 0) {
          image[blocks * 128 * shift + at / 8] |= std::byte{1} << at % 8;
        }
      }
      shift += plane;
    }
  }
  return image;
}

struct ExactCase {
  const char* name;
  Patterns values;
  Patterns copy;
};

/// Cases of n values: what training does, what it does not, and what no number is.
inline std::vector<ExactCase> exact_cases(std::size_t n, unsigned seed) {
  std::mt19937 draw(seed);
  const auto any = [&] { return static_cast<std::uint16_t>(draw()); };
  Patterns weights(n);
  for (std::uint16_t& each : weights) {
    each = round_to_bf16(0.02F * (static_cast<float>(draw() % 2001) / 1000.0F - 1.0F)).bits;
  }
  std::vector<ExactCase> cases{{"equal", weights, weights}};
  for (const unsigned reach : {1U, 3U, 30U, 500U}) {
    Patterns moved = weights;
    for (std::uint16_t& each : moved) {
      if (draw() % 3 == 0)
        each = static_cast<std::uint16_t>(each + draw() % (2 * reach + 1) - reach);
    }
    cases.push_back({"moved", moved, weights});
  }
  Patterns last = weights;
  if (n > 0) last.back() ^= 0x8001U;
  cases.push_back({"the last alone", last, weights});
  Patterns values(n);
  Patterns copy(n);
  for (std::uint16_t& each : values) each = any();
  for (std::uint16_t& each : copy) each = any();
  cases.push_back({"any patterns", values, copy});
  constexpr std::uint16_t kSpecial[] = {0,      0x8000, 1,      0x8001, 0x7F80,
                                        0xFF80, 0x7FC0, 0xFFFF, 0x7C00};
  for (std::uint16_t& each : values) each = kSpecial[draw() % std::size(kSpecial)];
  for (std::uint16_t& each : copy) each = kSpecial[draw() % std::size(kSpecial)];
  cases.push_back({"zeros, subnormals, infinities and NaN", values, copy});
  return cases;
}

/// The copy after an image that has no room for all escapes was decoded onto it.
inline Patterns reference_decoded(const Patterns& values, const Patterns& copy,
                                  const codec::ExactShape& shape) {
  if (shape.width == 0 || shape.width == codec::kWholeWidth) return values;
  Patterns decoded = values;
  std::uint64_t found = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (reference_code(values[i], copy[i]) < (1U << shape.width) - 1U) continue;
    if (found++ >= shape.escapes) decoded[i] = copy[i];
  }
  return decoded;
}

/// The shape that is best for the counted escapes, others that have room for them, and some that
/// have not.
inline std::vector<codec::ExactShape> exact_shapes(std::size_t n, const codec::Escapes& escapes) {
  std::vector<codec::ExactShape> shapes{codec::exact_shape(n, escapes), {codec::kWholeWidth, 0}};
  for (unsigned w = 1; w <= codec::kExactWidths; ++w) {
    shapes.push_back({w, escapes[w - 1]});
    shapes.push_back({w, escapes[w - 1] + 13});
    shapes.push_back({w, escapes[w - 1] / 2});
  }
  return shapes;
}

inline constexpr std::size_t kExactCounts[] = {0, 1, 7, 31, 33, 1023, 1024, 1025, 9000, 100'003};

}  // namespace zeropp::test
