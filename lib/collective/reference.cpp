#include "lib/collective/reference.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "lib/collective/draws.hpp"

namespace zeropp::collective {

namespace {

void add(Estimate& sum, const Estimate& row) {
  for (std::size_t i = 0; i < sum.values.size(); ++i) {
    sum.values[i] = sum.values[i] + row.values[i];
    // The rounding of this addition, generously: half an ulp of the larger term's magnitude.
    sum.bound[i] += row.bound[i] + 0x1p-23 * (std::abs(sum.values[i]) + std::abs(row.values[i]));
  }
}

/// Makes a row `n` values long: cut, or padded with zeros.
void resize(Estimate& row, std::size_t n) {
  row.values.resize(n);
  row.bound.resize(n);
}

Estimate zeros(std::size_t n) { return Estimate::exact(std::vector<float>(n, 0.0F)); }

}  // namespace

Estimate Estimate::exact(std::vector<float> values) {
  const std::size_t n = values.size();
  return {std::move(values), std::vector<double>(n, 0.0)};
}

Estimate through(const codec::CodecSpec& spec, Dtype plain, Estimate row, const codec::Draw& draw) {
  const std::size_t n = row.values.size();
  if (n == 0) return row;
  const codec::Codec codec(spec, plain);
  for (std::size_t begin = 0; begin < n; begin += codec.block()) {
    const std::size_t end = std::min(n, begin + codec.block());
    float largest = 0;
    for (std::size_t i = begin; i < end; ++i) largest = std::max(largest, std::abs(row.values[i]));
    for (std::size_t i = begin; i < end; ++i) {
      row.bound[i] += codec.error_bound(row.values[i], largest);
    }
  }
  auto layout = codec::Layout::contiguous(n);
  layout.padded = (n + codec.block() - 1) / codec.block() * codec.block();
  std::vector<std::byte> image(codec.wire_bytes(n));
  codec.encode(ConstView::of(row.values.data(), n), layout, {image.data(), image.size()}, {}, draw);
  codec.decode({image.data(), image.size()}, layout, View::of(row.values.data(), n), {});
  return row;
}

Estimate Reduction::fed_back(const codec::CodecSpec& spec, Estimate row, std::size_t block,
                             std::vector<float>& error, const codec::Draw& draw) const {
  const std::size_t n = row.values.size();
  error.resize(n);
  for (std::size_t i = 0; i < n; ++i) {
    row.values[i] = row.values[i] + error[i];
    row.bound[i] += std::abs(error[i]) + 0x1p-24 * std::abs(row.values[i]);
  }
  const std::vector<float> carried = row.values;
  resize(row, (n + block - 1) / block * block);
  row = through(spec, plain, std::move(row), draw);
  for (std::size_t i = 0; i < n; ++i) {
    const float lost = carried[i] - row.values[i];
    error[i] = std::fma(feedback.beta, error[i], (1.0F - feedback.beta) * lost);
  }
  if (feedback.storage == ErrorStorage::int8) {
    error = through({"int8", 256, {}}, Dtype::fp32, Estimate::exact(std::move(error))).values;
  }
  return row;
}

Estimate Reduction::sum(int rank, const Slices& slices, SliceErrors* errors) const {
  const int n = topology.world_size;
  const bool inter = algorithm == "2-hop" && topology.node_count > 1;
  if (inter && topology.ranks_per_node > 1) {
    return two_hops(rank, slices, errors);
  }
  if (algorithm == "flat" && n > 1) return around_the_ring(rank, slices);
  constexpr std::array<std::string_view, 5> in_rank_order{"1-hop", "2-hop", "flat", "native",
                                                          "ordered"};
  if (std::ranges::find(in_rank_order, algorithm) == in_rank_order.end()) {
    throw std::invalid_argument("write the order of operations of " + algorithm + " here");
  }
  const codec::CodecSpec& codec = inter ? second : first;
  const bool feeds_back = errors != nullptr && (inter ? feedback.inter : feedback.intra);
  if (feeds_back) errors->first.resize(static_cast<std::size_t>(n));
  Estimate total;
  for (int source = 0; source < n; ++source) {
    const codec::Draw draws = draw(rank, 0, source);
    const Estimate row = feeds_back
                             ? fed_back(codec, slices(source), 1,
                                        errors->first[static_cast<std::size_t>(source)], draws)
                             : through(codec, plain, slices(source), draws);
    if (source == 0) total = zeros(row.values.size());
    add(total, row);
  }
  return total;
}

std::vector<double> Reduction::exact(const Slices& slices) const {
  const Estimate own = slices(0);
  std::vector<double> total(own.values.begin(), own.values.end());
  for (int source = 1; source < topology.world_size; ++source) {
    const Estimate row = slices(source);
    for (std::size_t e = 0; e < total.size(); ++e) total[e] += row.values[e];
  }
  return total;
}

codec::Draw Reduction::draw(int rank, std::size_t hop, int source) const {
  return draw_of(key, hop, static_cast<std::size_t>(source), static_cast<std::size_t>(rank), begin);
}

Estimate Reduction::two_hops(int rank, const Slices& slices, SliceErrors* errors) const {
  // Slices travel in whole blocks of both hops, and what the first hop makes of their padding goes
  // on to the second: a code for zero is not in every format (+asym, +had32).
  const std::size_t block =
      std::max(codec::Codec(first, plain).block(), codec::Codec(second, plain).block());
  std::size_t count = 0;
  const auto whole_blocks = [&](Estimate row) {
    resize(row, (count + block - 1) / block * block);
    return row;
  };
  const bool feeds_first = errors != nullptr && feedback.intra;
  const bool feeds_second = errors != nullptr && feedback.inter;
  if (feeds_first) errors->first.resize(static_cast<std::size_t>(topology.world_size));
  if (feeds_second) errors->second.resize(static_cast<std::size_t>(topology.node_count));
  Estimate total;
  for (int node = 0; node < topology.node_count; ++node) {
    Estimate partial;
    for (int local = 0; local < topology.ranks_per_node; ++local) {
      const int source = node * topology.ranks_per_node + local;
      const codec::Draw draws = draw(rank, 0, source);
      Estimate slice = slices(source);
      count = slice.values.size();
      const Estimate row = feeds_first
                               ? fed_back(first, std::move(slice), block,
                                          errors->first[static_cast<std::size_t>(source)], draws)
                               : through(first, plain, whole_blocks(std::move(slice)), draws);
      if (local == 0) partial = zeros(row.values.size());
      add(partial, row);
    }
    if (node == 0) total = zeros(partial.values.size());
    const codec::Draw draws =
        draw(rank, 1, node * topology.ranks_per_node + rank % topology.ranks_per_node);
    if (feeds_second) {
      resize(partial, count);
      add(total, fed_back(second, std::move(partial), block,
                          errors->second[static_cast<std::size_t>(node)], draws));
    } else {
      add(total, through(second, plain, std::move(partial), draws));
    }
  }
  resize(total, count);
  return total;
}

Estimate Reduction::around_the_ring(int rank, const Slices& slices) const {
  const int n = topology.world_size;
  Estimate partial = slices((rank + 1) % n);
  for (int hop = 2; hop <= n; ++hop) {
    partial = through(first, plain, std::move(partial),
                      draw(rank, static_cast<std::size_t>(hop) - 2, (rank + hop - 1) % n));
    add(partial, slices((rank + hop) % n));
  }
  return partial;
}

}  // namespace zeropp::collective
