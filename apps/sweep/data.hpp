// Data that ranks send: a value depends only on the seed, the rank and the element, so every rank
// can say what any other sent, and swapped, shifted or foreign data is seen. One hash a value,
// since a check makes the data of all ranks on each. Integers whose sum over the ranks is exact in
// the dtype, for lossless collectives; draws close to N(0, 1), rounded to the dtype, for lossy ones
// (the sum of four uniforms, Irwin-Hall).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

#include "kernels/core/view.hpp"

namespace zeropp::sweep {

class Data {
 public:
  enum class Kind : std::uint8_t { integers, normal };

  /// `ranks`: how many values a sum has.
  Data(Kind kind, std::uint64_t seed, Dtype dtype, int ranks)
      : kind_(kind),
        dtype_(dtype),
        key_(mixed(seed + 1)),
        largest_(std::max(1, largest_sum(dtype) / std::max(1, ranks))) {}

  [[nodiscard]] Dtype dtype() const { return dtype_; }

  /// Elements [first, first + out.size()) of rank `rank` of the world.
  void values(int rank, std::size_t first, std::span<float> out) const {
    const std::uint64_t key = mixed(key_ + static_cast<std::uint64_t>(rank));
    with_type(dtype_, [&]<class T>(T*) {
      for (std::size_t i = 0; i < out.size(); ++i) {
        const std::uint64_t bits = mixed(key + first + i);
        out[i] =
            kind_ == Kind::integers ? integer(bits) : to_float(saturating_cast<T>(normal(bits)));
      }
    });
    if (rank != planted_.rank) return;
    for (std::size_t i = 0; i < out.size(); ++i) {
      const std::size_t place = (first + i) % planted_.stride;
      if (place == planted_.nan_at) out[i] = std::numeric_limits<float>::quiet_NaN();
      if (place == planted_.infinity_at) out[i] = std::numeric_limits<float>::infinity();
    }
  }

  /// A NaN and an infinity in every part of one rank's data.
  struct Planted {
    int rank = -1;           ///< of the world; -1: nothing is planted
    std::size_t stride = 1;  ///< from part to part, in elements
    std::size_t nan_at = 0;  ///< element of the part
    std::size_t infinity_at = 0;
  };
  [[nodiscard]] Data with(const Planted& planted) const {
    Data data = *this;
    data.planted_ = planted;
    return data;
  }

 private:
  /// Every integer up to it is exact in the dtype.
  static constexpr int largest_sum(Dtype dtype) {
    switch (dtype) {
      case Dtype::bf16:
        return 1 << 8;
      case Dtype::fp16:
        return 1 << 11;
      case Dtype::fp32:
        break;
    }
    return 1 << 24;
  }
  /// SplitMix64 (Steele, Lea, Flood, OOPSLA'14).
  static constexpr std::uint64_t mixed(std::uint64_t state) {
    state *= 0x9E3779B97F4A7C15U;
    state = (state ^ (state >> 30U)) * 0xBF58476D1CE4E5B9U;
    state = (state ^ (state >> 27U)) * 0x94D049BB133111EBU;
    return state ^ (state >> 31U);
  }
  [[nodiscard]] float integer(std::uint64_t bits) const {
    const auto choices = 2 * static_cast<std::uint64_t>(largest_) + 1;
    const auto drawn = static_cast<std::int64_t>(((bits >> 32U) * choices) >> 32U);
    return static_cast<float>(drawn - largest_);
  }
  static float normal(std::uint64_t bits) {
    const auto lane = [&](unsigned shift) {
      return static_cast<std::int32_t>((bits >> shift) & 0xFFFFU);
    };
    // The mean of a lane is 65535 / 2, the variance 65536^2 / 12.
    const std::int32_t sum = lane(0) + lane(16) + lane(32) + lane(48) - 2 * 65535;
    return static_cast<float>(sum) * (1.7320508F / 65536.0F);
  }

  Kind kind_;
  Dtype dtype_;
  std::uint64_t key_;
  int largest_;
  Planted planted_;
};

}  // namespace zeropp::sweep
