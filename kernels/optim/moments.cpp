#include "kernels/optim/moments.hpp"

#include <algorithm>
#include <cstring>

namespace zeropp::optim {

namespace {

/// body(first element, elements, scale) for each block.
template <class Body>
void for_each_block(std::size_t count, const Body& body) {
  for (std::size_t first = 0; first < count; first += kMomentBlock) {
    body(first, std::min(kMomentBlock, count - first), first / kMomentBlock);
  }
}

template <bool Signed>
void widen_codes(std::size_t count, const std::uint8_t* codes, const float* scales, float* wide) {
  for_each_block(count, [&](std::size_t first, std::size_t elements, std::size_t block) {
    decode_block<Signed>(codes + first, scales[block], elements, wide + first);
  });
}

template <bool Signed>
void keep_codes(std::size_t count, const float* wide, std::uint8_t* codes, float* scales) {
  for_each_block(count, [&](std::size_t first, std::size_t elements, std::size_t block) {
    scales[block] = encode_block<Signed>(wide + first, elements, codes + first);
  });
}

}  // namespace

void widen_moments(Moments moments, bool is_signed, std::size_t count, const std::byte* values,
                   const float* scales, float* wide) {
  if (moments == Moments::fp32) {
    std::memcpy(wide, values, count * sizeof(float));
  } else if (moments == Moments::bf16) {
    const auto* const from = reinterpret_cast<const Bf16*>(values);
    std::transform(from, from + count, wide, [](Bf16 value) { return to_float(value); });
  } else {
    const auto* const codes = reinterpret_cast<const std::uint8_t*>(values);
    is_signed ? widen_codes<true>(count, codes, scales, wide)
              : widen_codes<false>(count, codes, scales, wide);
  }
}

void keep_moments(Moments moments, bool is_signed, std::size_t count, const float* wide,
                  std::byte* values, float* scales) {
  if (moments == Moments::fp32) {
    std::memcpy(values, wide, count * sizeof(float));
  } else if (moments == Moments::bf16) {
    std::transform(wide, wide + count, reinterpret_cast<Bf16*>(values), saturating_cast<Bf16>);
  } else {
    auto* const codes = reinterpret_cast<std::uint8_t*>(values);
    is_signed ? keep_codes<true>(count, wide, codes, scales)
              : keep_codes<false>(count, wide, codes, scales);
  }
}

}  // namespace zeropp::optim
