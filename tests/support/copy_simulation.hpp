// The copy of the weights that weight differences are added to, in plain loops: the reference that
// tests compare the copies of nodes and ranks with, bit by bit.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <type_traits>
#include <vector>

#include "kernels/codec/codec.hpp"
#include "lib/base/sha256.hpp"
#include "lib/device/buffer.hpp"
#include "lib/device/device.hpp"
#include "lib/zero/plan/options.hpp"
#include "lib/zero/plan/partition.hpp"

namespace zeropp::test {

inline float rounded(float value, Dtype dtype) {
  return with_type(dtype, [&](auto* type) {
    return to_float(saturating_cast<std::remove_pointer_t<decltype(type)>>(value));
  });
}

/// Encodes and decodes values, rounded to `memory` first.
inline std::vector<float> through(const codec::CodecSpec& spec, Dtype memory,
                                  std::vector<float> values) {
  const codec::Codec codec(spec, memory);
  for (float& value : values) value = rounded(value, memory);
  const Buffer image(std::max<std::size_t>(16, codec.wire_bytes(values.size())), MemoryKind::host);
  const auto layout =
      codec::Layout{1,
                    0,
                    1,
                    0,
                    values.size(),
                    (values.size() + codec.block() - 1) / codec.block() * codec.block()};
  const codec::WireImages wire{image.data(), image.bytes()};
  const View view = View::of(values.data(), values.size());
  codec.rounding().encode(view, layout, wire, {});
  codec.decode(wire, layout, view, {});
  return values;
}

/// The copy as one process would keep it: shard by shard of all units.
class CopySimulation {
 public:
  CopySimulation(const zero::Options& options, const std::vector<zero::UnitPartition>& units)
      : options_(options), units_(units) {
    for (const zero::UnitPartition& unit : units) copies_.emplace_back(unit.padded, 0.0F);
  }

  /// Sends the weights of a unit, whole or as differences; `weights` are the flat elements. With
  /// offload they are rounded to the compute dtype before that.
  void follow(std::size_t unit, std::vector<float> weights, bool whole) {
    const std::size_t shard = units_[unit].shard;
    const Dtype dtype = units_[unit].secondary_dtype;
    std::vector<float>& copy = copies_[unit];
    weights.resize(copy.size(), 0.0F);
    if (options_.offload_optimizer.enabled()) {
      for (float& weight : weights) weight = rounded(weight, options_.compute);
    }
    const codec::CodecSpec& spec =
        whole ? options_.weight_codec : options_.weight_differences.codec;
    const codec::Codec codec(spec, options_.compute);
    for (std::size_t begin = 0; begin < copy.size(); begin += shard) {
      std::vector<float> sent(weights.begin() + static_cast<std::ptrdiff_t>(begin),
                              weights.begin() + static_cast<std::ptrdiff_t>(begin + shard));
      for (std::size_t i = 0; i < shard && !whole; ++i) sent[i] -= copy[begin + i];
      const std::vector<float> arrived = through(spec, options_.compute, sent);
      for (std::size_t i = 0; i < shard; ++i) {
        const float before = whole ? 0.0F : copy[begin + i];
        copy[begin + i] = rounded(before + arrived[i], dtype);
        const double lost = std::abs(double{weights[begin + i]} - copy[begin + i]);
        EXPECT_LE(lost, bound(codec, sent, i, copy[begin + i], dtype)) << unit << " " << begin + i;
      }
    }
  }

  /// The copy of a unit: UnitPartition::padded values of its dtype.
  [[nodiscard]] const std::vector<float>& copy(std::size_t unit) const { return copies_[unit]; }

  /// The SHA-256 that a holder of the copy computes.
  [[nodiscard]] std::string hash() const {
    Sha256 all;
    for (std::size_t unit = 0; unit < units_.size(); ++unit) {
      const Dtype dtype = units_[unit].secondary_dtype;
      for (std::size_t begin = 0; begin < copies_[unit].size(); begin += units_[unit].shard) {
        Buffer memory = Buffer::zeros(units_[unit].shard, dtype, MemoryKind::host);
        const View shard = memory.view(units_[unit].shard, dtype);
        host_memory_ops().convert(ConstView::of(copies_[unit].data() + begin, shard.count), shard,
                                  {});
        Sha256 digest;
        digest.update({memory.data(), shard.bytes()});
        const std::string hex = digest.hex();
        all.update(std::as_bytes(std::span(hex)));
      }
    }
    return all.hex();
  }

 private:
  /// The largest loss of value `i` of the sent values: by its codec, which gets values rounded to
  /// the compute dtype, and by the rounding of the copy.
  [[nodiscard]] double bound(const codec::Codec& codec, const std::vector<float>& sent,
                             std::size_t i, float copy, Dtype dtype) const {
    const auto ulp = [](double value, Dtype of) {
      return std::abs(value) * (of == Dtype::fp32 ? 0x1p-23 : 0x1p-8);
    };
    const std::size_t block = std::max<std::size_t>(codec.block(), 1);
    const std::size_t first = i / block * block;
    float absmax = 0;
    for (std::size_t k = first; k < std::min(first + block, sent.size()); ++k)
      absmax = std::max(absmax, std::abs(rounded(sent[k], options_.compute)));
    return codec.error_bound(rounded(sent[i], options_.compute), absmax) +
           ulp(sent[i], options_.compute) + ulp(copy, dtype) + 1e-30;
  }

  const zero::Options& options_;
  const std::vector<zero::UnitPartition>& units_;
  std::vector<std::vector<float>> copies_;
};

}  // namespace zeropp::test
