// Checks of the codecs' kernels: images that the host encodes, and how far decoded values may lie
// from those that were encoded.
#pragma once

#include <cmath>
#include <cstddef>
#include <span>
#include <vector>

#include "apps/kernels/kernel.hpp"
#include "apps/kernels/verdict.hpp"
#include "kernels/codec/codec.hpp"

namespace zeropp::kernels {

/// Encodes `images` wire images of n values each, value e of image i being values(i * n + e), on
/// the host one after the other into `memory`.
void encode_on_host(const codec::Codec& host, const Values& values, Dtype dtype, std::size_t images,
                    std::size_t n, View memory);

/// Calls body(i, bound) for i in [0, n): the bound is what the codec promises of value(i) where
/// blocks begin at 0.
template <class Value, class Body>
void for_each_bound(const codec::Codec& codec, std::size_t n, const Value& value,
                    const Body& body) {
  const std::size_t block = codec.block();
  for (std::size_t begin = 0; begin < n; begin += block) {
    const std::size_t end = std::min(begin + block, n);
    float largest = 0;
    for (std::size_t i = begin; i < end; ++i) largest = std::max(largest, std::fabs(value(i)));
    for (std::size_t i = begin; i < end; ++i) body(i, codec.error_bound(value(i), largest));
  }
}

/// Error that rounding `value` to `dtype`, or adding a few of them in fp32, may add to an error.
double rounding(double value, Dtype dtype);

/// Operations that encoding a value takes: with scales a comparison, a product and a rounding.
double encode_operations(const codec::Codec& codec);

}  // namespace zeropp::kernels
