// Exact differences of one value and of one group, and where the parts of an image lie: what the
// back ends share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>

#include "kernels/codec/exact.hpp"
#include "kernels/codec/planes.hpp"
#include "kernels/codec/wire.hpp"
#include "kernels/core/half.hpp"
#include "kernels/core/macros.hpp"

namespace zeropp::codec {

/// Blocks whose counts a GPU adds up at once; it keeps a sum of each such tile.
inline constexpr std::size_t kScanTile = 8192;
inline constexpr int kGroupsOfBlock = static_cast<int>(kExactBlock) / kGroup;

/// Blocks of n values.
ZEROPP_HD std::size_t exact_blocks(std::size_t n) { return (n + kExactBlock - 1) / kExactBlock; }

/// A pattern of 16 bits, of sign and magnitude, as an integer in the order of the numbers; -0 comes
/// just before 0.
ZEROPP_HD std::uint32_t monotone(std::uint32_t bits) {
  return bits ^ ((bits & 0x8000U) != 0 ? 0xFFFFU : 0x8000U);
}
ZEROPP_HD std::uint32_t pattern_of(std::uint32_t monotone) {
  return monotone ^ ((monotone & 0x8000U) != 0 ? 0x8000U : 0xFFFFU);
}

/// The difference of two patterns as a code that is small where it is: in [0, 65535].
ZEROPP_HD std::uint32_t difference_code(std::uint32_t value, std::uint32_t copy) {
  const std::uint32_t difference = (monotone(value) - monotone(copy)) << 16U;
  const auto sign = static_cast<std::uint32_t>(static_cast<std::int32_t>(difference) >> 31);
  return ((difference << 1U) ^ sign) >> 16U;
}
ZEROPP_HD std::uint32_t value_of(std::uint32_t code, std::uint32_t copy) {
  const std::uint32_t difference = (code >> 1U) ^ (0U - (code & 1U));
  return pattern_of((monotone(copy) + difference) & 0xFFFFU);
}

/// The pattern of a value as the copy's dtype has it.
template <class Copy>
ZEROPP_HD std::uint32_t pattern_as(float value) {
  return saturating_cast<Copy>(value).bits;
}
template <class Copy>
ZEROPP_HD std::uint32_t pattern_as(Copy value) {
  return value.bits;
}

/// Where the parts of an image with codes lie.
struct ExactParts {
  std::size_t blocks;
  std::size_t offsets;  ///< in bytes
  std::size_t escapes;  ///< in bytes
  std::size_t bytes;

  ZEROPP_HD static ExactParts of(std::size_t n, const ExactShape& shape) {
    ExactParts parts{};
    parts.blocks = exact_blocks(n);
    parts.offsets = parts.blocks * (kExactBlock / 8) * shape.width;
    parts.escapes = parts.offsets + padded_bytes(parts.blocks * sizeof(std::uint32_t));
    parts.bytes = parts.escapes + padded_bytes(shape.escapes * sizeof(std::uint16_t));
    return parts;
  }
  [[nodiscard]] ZEROPP_HD std::size_t values() const { return blocks * kExactBlock; }
};

/// Throws std::logic_error for what a table of `backend` cannot take.
inline void require_exact(const ConstView& values, const ConstView& copy, Backend backend) {
  const auto unreachable = backend == Backend::host ? MemoryKind::device : MemoryKind::host;
  if (values.kind == unreachable || copy.kind == unreachable) {
    throw std::logic_error("exact differences: memory that this back end cannot reach");
  }
  if (copy.dtype == Dtype::fp32 || (values.dtype != Dtype::fp32 && values.dtype != copy.dtype)) {
    throw std::logic_error("exact differences: a copy has 16 bits, values have its dtype or fp32");
  }
  if (values.count != copy.count) {
    throw std::logic_error("exact differences: " + std::to_string(values.count) + " values, and " +
                           std::to_string(copy.count) + " of the copy");
  }
}

/// Throws std::logic_error likewise.
inline void require_copies(const View& copies, std::size_t images, std::size_t n, Backend backend) {
  require_exact(copies, copies, backend);
  if (copies.count >= images * n) return;
  throw std::logic_error("exact differences: " + std::to_string(images) + " copies of " +
                         std::to_string(n) + " do not fit " + std::to_string(copies.count));
}

}  // namespace zeropp::codec
