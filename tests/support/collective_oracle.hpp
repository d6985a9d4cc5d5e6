// What the collectives have to give, from the generated values of all ranks: the exact sum in fp64,
// a bound on the error from what the codecs promise, and the bits that the documented order of
// operations gives. Uses codecs on single slices only; knows no messages, chunks or strides.
#pragma once

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/codec/codec.hpp"
#include "lib/comm/topology.hpp"
#include "tests/support/patterns.hpp"

namespace zeropp::test {

/// A row of values with the largest error that its making may have added, element by element.
struct Estimate {
  std::vector<float> values;
  std::vector<double> bound;
};

/// The format that runs: `none` sends the plain dtype.
inline const codec::FormatInfo& info_of(const codec::CodecSpec& spec, Dtype plain) {
  const bool narrow = spec.format == "none" && plain != Dtype::fp32;
  const std::string_view name = narrow ? name_of(plain) : std::string_view(spec.format);
  for (const auto& info : codec::formats()) {
    if (info.name == name) return info;
  }
  throw std::invalid_argument("no such format");
}

/// `row` encoded and decoded.
inline Estimate through(const codec::CodecSpec& spec, Dtype plain, Estimate row) {
  const std::size_t n = row.values.size();
  if (n == 0) return row;
  const codec::Codec codec(spec, plain);
  const auto& info = info_of(spec, plain);
  float largest = 0;
  for (const float value : row.values) largest = std::max(largest, std::abs(value));
  for (std::size_t i = 0; i < n; ++i) row.bound[i] += info.error_bound(row.values[i], largest);
  auto layout = codec::Layout::contiguous(n);
  layout.padded = (n + codec.block() - 1) / codec.block() * codec.block();
  std::vector<std::byte> image(codec.wire_bytes(n));
  codec.encode(ConstView::of(row.values.data(), n), layout, {image.data(), image.size()}, {});
  codec.decode({image.data(), image.size()}, layout, View::of(row.values.data(), n), {});
  return row;
}

inline void add(Estimate& sum, const Estimate& row) {
  for (std::size_t i = 0; i < sum.values.size(); ++i) {
    sum.values[i] = sum.values[i] + row.values[i];
    // The rounding of this addition, generously: half an ulp of the larger term's magnitude.
    sum.bound[i] += row.bound[i] + 0x1p-23 * (std::abs(sum.values[i]) + std::abs(row.values[i]));
  }
}

inline Estimate zeros(std::size_t n) {
  return {std::vector<float>(n, 0.0F), std::vector<double>(n, 0.0)};
}

/// Part `part` (of `count` elements) of rank `source`'s buffer.
inline Estimate slice(Dtype dtype, int source, int part, std::size_t count) {
  Estimate row = zeros(count);
  for (std::size_t e = 0; e < count; ++e) {
    row.values[e] = value_of(dtype, source, static_cast<std::size_t>(part) * count + e);
  }
  return row;
}

/// One reduce-scatter of parts of `count` generated values.
struct Reduction {
  std::string_view algorithm;
  comm::Topology topology;
  Dtype memory;
  Dtype plain;  ///< what `none` sends
  std::size_t count;
  codec::CodecSpec first;
  codec::CodecSpec second;

  /// The sum over ranks of slice `rank`, in the order of operations that the algorithm documents.
  [[nodiscard]] Estimate sum(int rank) const {
    const int n = topology.world_size;
    if (algorithm == "2-hop" && topology.node_count > 1 && topology.ranks_per_node > 1) {
      return two_hops(rank);
    }
    if (algorithm == "flat" && n > 1) return around_the_ring(rank);
    constexpr std::string_view in_rank_order[] = {"1-hop", "2-hop", "flat", "native", "ordered"};
    if (std::ranges::find(in_rank_order, algorithm) == std::end(in_rank_order)) {
      throw std::invalid_argument("write the order of operations of " + std::string(algorithm) +
                                  " here");
    }
    const bool across = algorithm == "2-hop" && topology.node_count > 1;
    Estimate total = zeros(count);
    for (int source = 0; source < n; ++source) {
      add(total, through(across ? second : first, plain, slice(memory, source, rank, count)));
    }
    return total;
  }

  /// The same in fp64, without codecs.
  [[nodiscard]] std::vector<double> exact(int rank) const {
    std::vector<double> total(count, 0.0);
    for (int source = 0; source < topology.world_size; ++source) {
      const auto row = slice(memory, source, rank, count);
      for (std::size_t e = 0; e < count; ++e) total[e] += row.values[e];
    }
    return total;
  }

 private:
  [[nodiscard]] Estimate two_hops(int rank) const {
    Estimate total = zeros(count);
    for (int node = 0; node < topology.node_count; ++node) {
      Estimate partial = zeros(count);
      for (int local = 0; local < topology.ranks_per_node; ++local) {
        const int source = node * topology.ranks_per_node + local;
        add(partial, through(first, plain, slice(memory, source, rank, count)));
      }
      add(total, through(second, plain, partial));
    }
    return total;
  }

  [[nodiscard]] Estimate around_the_ring(int rank) const {
    const int n = topology.world_size;
    Estimate partial = slice(memory, (rank + 1) % n, rank, count);
    for (int hop = 2; hop <= n; ++hop) {
      partial = through(first, plain, partial);
      add(partial, slice(memory, (rank + hop) % n, rank, count));
    }
    return partial;
  }
};

}  // namespace zeropp::test
