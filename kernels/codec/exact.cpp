// The host's exact differences, block by block, and what all back ends share.
#include "kernels/codec/exact.hpp"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <string>
#include <type_traits>

#include "kernels/codec/exact_math.hpp"
#include "kernels/core/host_for.hpp"

namespace zeropp::codec {

namespace {

/// Codes of the group that begins with value `first`, zeros from value n on. Loops without branches
/// become vector code.
template <class Value, class Copy>
void group_codes(const Value* values, const Copy* copy, std::size_t first, std::size_t n,
                 std::uint32_t (&codes)[kGroup]) {
  if (first + kGroup <= n) {
    for (std::size_t i = 0; i < kGroup; ++i) {
      codes[i] = difference_code(pattern_as<Copy>(values[first + i]), copy[first + i].bits);
    }
    return;
  }
  std::fill_n(codes, kGroup, 0U);
  for (std::size_t i = 0; first + i < n; ++i) {
    codes[i] = difference_code(pattern_as<Copy>(values[first + i]), copy[first + i].bits);
  }
}

/// Limits the codes of a group to the escape, and returns which are escapes: bit i is value i. Many
/// groups have none.
std::uint32_t limit_codes(unsigned width, std::uint32_t (&codes)[kGroup]) {
  const std::uint32_t escape = (1U << width) - 1U;
  std::uint32_t largest = 0;
  for (const std::uint32_t code : codes) largest = std::max(largest, code);
  if (largest < escape) return 0;
  std::uint32_t escaped = 0;
  for (unsigned i = 0; i < kGroup; ++i) {
    const bool escapes = codes[i] >= escape;
    codes[i] = escapes ? escape : codes[i];
    escaped |= static_cast<std::uint32_t>(escapes) << i;
  }
  return escaped;
}

/// body(values, copy) as arrays of their types.
template <class Body>
void with_arrays(const ConstView& values, const ConstView& copy, const Body& body) {
  with_type(copy.dtype, [&](auto* tag) {
    using Copy = std::remove_pointer_t<decltype(tag)>;
    if constexpr (!std::is_same_v<Copy, float>) {
      if (values.dtype == Dtype::fp32) {
        body(values.as<float>(), copy.as<Copy>());
      } else {
        body(values.as<Copy>(), copy.as<Copy>());
      }
    }
  });
}

void count(ConstView values, ConstView copy, std::byte* counts, Escapes* total, StreamHandle) {
  require_exact(values, copy, Backend::host);
  const std::size_t n = values.count;
  const std::size_t blocks = exact_blocks(n);
  auto* const by_block = reinterpret_cast<std::uint16_t*>(counts);
  with_arrays(values, copy, [&](const auto* from, const auto* base) {
    host_for("exact_count", blocks, [=](std::size_t block) {
      std::uint32_t escapes[kExactWidths] = {};
      for (int g = 0; g < kGroupsOfBlock; ++g) {
        std::uint32_t codes[kGroup];
        group_codes(from, base, block * kExactBlock + static_cast<std::size_t>(g) * kGroup, n,
                    codes);
        for (unsigned w = 0; w < kExactWidths; ++w) {
          const std::uint32_t escape = (2U << w) - 1U;
          for (const std::uint32_t code : codes) escapes[w] += code >= escape ? 1U : 0U;
        }
      }
      for (unsigned w = 0; w < kExactWidths; ++w) {
        by_block[w * blocks + block] = static_cast<std::uint16_t>(escapes[w]);
      }
    });
  });
  for (unsigned w = 0; w < kExactWidths; ++w) {
    (*total)[w] = 0;
    for (std::size_t block = 0; block < blocks; ++block)
      (*total)[w] += by_block[w * blocks + block];
  }
}

void encode(ConstView values, ConstView copy, std::byte* counts, const ExactShape& shape,
            std::byte* image, StreamHandle) {
  require_exact(values, copy, Backend::host);
  const std::size_t n = values.count;
  if (shape.width == 0) return;
  if (shape.width == kWholeWidth) {
    with_arrays(values, copy, [&](const auto* from, const auto* base) {
      using Copy = std::remove_cvref_t<decltype(*base)>;
      auto* const to = reinterpret_cast<std::uint16_t*>(image);
      for_blocks("exact_encode", n, [=](std::size_t begin, std::size_t end) {
        for (std::size_t i = begin; i < end; ++i) {
          to[i] = static_cast<std::uint16_t>(pattern_as<Copy>(from[i]));
        }
      });
    });
    std::memset(image + n * 2, 0, exact_bytes(n, shape) - n * 2);
    return;
  }
  const ExactParts parts = ExactParts::of(n, shape);
  std::memset(image + parts.offsets, 0, parts.bytes - parts.offsets);
  auto* const offsets = reinterpret_cast<std::uint32_t*>(image + parts.offsets);
  const auto* const by_block =
      reinterpret_cast<const std::uint16_t*>(counts) + (shape.width - 1) * parts.blocks;
  std::uint32_t before = 0;
  for (std::size_t block = 0; block < parts.blocks; ++block) {
    offsets[block] = before;
    before += by_block[block];
  }
  with_arrays(values, copy, [&](const auto* from, const auto* base) {
    using Copy = std::remove_cvref_t<decltype(*base)>;
    host_for("exact_encode", parts.blocks, [=](std::size_t block) {
      auto* const escapes = reinterpret_cast<std::uint16_t*>(image + parts.escapes);
      std::size_t at = offsets[block];
      for (int g = 0; g < kGroupsOfBlock; ++g) {
        const std::size_t first = block * kExactBlock + static_cast<std::size_t>(g) * kGroup;
        std::uint32_t codes[kGroup];
        group_codes(from, base, first, n, codes);
        for (std::uint32_t left = limit_codes(shape.width, codes); left != 0; left &= left - 1U) {
          const auto i = static_cast<std::size_t>(std::countr_zero(left));
          if (at < shape.escapes) {
            escapes[at++] = static_cast<std::uint16_t>(pattern_as<Copy>(from[first + i]));
          } else {
            codes[i] = 0;
          }
        }
        GroupCodes(shape.width, parts.values(), first).store(codes, image);
      }
    });
  });
}

void decode(ConstWireImages in, std::size_t images, std::size_t n, const ExactShape& shape,
            View copies, StreamHandle) {
  require_copies(copies, images, n, Backend::host);
  if (shape.width == 0) return;
  auto* const all = static_cast<std::uint16_t*>(copies.data);
  if (shape.width == kWholeWidth) {
    for (std::size_t i = 0; i < images; ++i) {
      std::memcpy(all + i * n, in.data + i * in.stride, n * sizeof(std::uint16_t));
    }
    return;
  }
  const ExactParts parts = ExactParts::of(n, shape);
  host_for("exact_decode", images * parts.blocks, [=](std::size_t task) {
    const std::size_t block = task % parts.blocks;
    const std::byte* const image = in.data + task / parts.blocks * in.stride;
    std::uint16_t* const copy = all + task / parts.blocks * n;
    const auto* const escapes = reinterpret_cast<const std::uint16_t*>(image + parts.escapes);
    std::size_t at = reinterpret_cast<const std::uint32_t*>(image + parts.offsets)[block];
    for (int g = 0; g < kGroupsOfBlock; ++g) {
      const std::size_t first = block * kExactBlock + static_cast<std::size_t>(g) * kGroup;
      std::uint32_t codes[kGroup];
      GroupCodes(shape.width, parts.values(), first).load(image, codes);
      std::uint32_t left = limit_codes(shape.width, codes);
      if (first + kGroup <= n) {
        for (std::size_t i = 0; i < kGroup; ++i) {
          copy[first + i] = static_cast<std::uint16_t>(value_of(codes[i], copy[first + i]));
        }
      } else {
        for (std::size_t i = 0; first + i < n; ++i) {
          copy[first + i] = static_cast<std::uint16_t>(value_of(codes[i], copy[first + i]));
        }
      }
      for (; left != 0; left &= left - 1U, ++at) {
        const std::size_t i = first + static_cast<std::size_t>(std::countr_zero(left));
        if (i < n) copy[i] = at < shape.escapes ? escapes[at] : std::uint16_t{0};
      }
    }
  });
}

}  // namespace

std::size_t exact_count_bytes(std::size_t n) {
  const std::size_t blocks = exact_blocks(n);
  return blocks * kExactWidths * sizeof(std::uint16_t) +
         (blocks / kScanTile + 1) * sizeof(std::uint32_t);
}

std::size_t exact_bytes(std::size_t n, const ExactShape& shape) {
  if (shape.width == 0) return 0;
  if (shape.width == kWholeWidth) return padded_bytes(n * sizeof(std::uint16_t));
  if (shape.width <= kExactWidths) return ExactParts::of(n, shape).bytes;
  throw std::invalid_argument("exact differences: a width of " + std::to_string(shape.width) +
                              " bits: it is 0 to 8, or 16");
}

ExactShape exact_shape(std::size_t n, const Escapes& escapes) {
  if (escapes[0] == 0) return {.width = 0, .escapes = 0};
  ExactShape best;
  for (unsigned width = 1; width <= kExactWidths; ++width) {
    const ExactShape shape{.width = width, .escapes = escapes[width - 1]};
    if (exact_bytes(n, shape) < exact_bytes(n, best)) best = shape;
  }
  return best;
}

const ExactOps& exact_ops(Backend backend) {
  static constexpr ExactOps host{count, encode, decode};
  if (backend == Backend::host) return host;
  if (const ExactOps* const cuda = cuda_exact_ops()) return *cuda;
  throw std::invalid_argument("exact differences: this build has no CUDA");
}

}  // namespace zeropp::codec
