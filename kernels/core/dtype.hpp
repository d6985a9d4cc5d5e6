// Element types of memory and wire.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace zeropp {

enum class Dtype : std::uint8_t { fp32, bf16, fp16 };

/// Bytes of one element.
constexpr std::size_t size_of(Dtype dtype) { return dtype == Dtype::fp32 ? 4 : 2; }

constexpr std::string_view name_of(Dtype dtype) {
  switch (dtype) {
    case Dtype::fp32:
      return "fp32";
    case Dtype::bf16:
      return "bf16";
    case Dtype::fp16:
      return "fp16";
  }
  return "?";
}

}  // namespace zeropp
