#include "apps/converge/bits.hpp"

#include <limits>
#include <optional>

#include "kernels/codec/codec.hpp"
#include "lib/collective/collective.hpp"
#include "lib/zero/plan/codec_table.hpp"

namespace zeropp::converge {

namespace {

/// Bits per value of an image that is so long that its padding does not count.
double bits_of(const codec::CodecSpec& spec, Dtype plain) {
  constexpr std::size_t kValues = std::size_t{1} << 20U;
  return 8.0 * static_cast<double>(codec::Codec(spec, plain).wire_bytes(kValues)) / kValues;
}

/// Bits per value of the codecs of one step.
double weight_bits_in_step(const zero::CodecTable& table, std::uint64_t step,
                           const zero::Options& zero) {
  const auto whole = [&](std::uint64_t of) -> const codec::CodecSpec& {
    return table.weights(0)[table.at(of).weights.front()];
  };
  const bool differences = zero.weight_differences.enabled && !table.refreshes_at(step) &&
                           (step == 0 || whole(step) == whole(step - 1));
  if (differences && zero.weight_differences.exact) return zero.weight_differences.planned_bits;
  return bits_of(differences ? zero.weight_differences.codec : whole(step), zero.compute);
}

double gradient_bits_in_step(const zero::CodecTable& table, std::uint64_t step,
                             const zero::Options& zero, const comm::Topology& topology) {
  const zero::GradientCodecs& codecs = table.gradients(0)[table.at(step).gradients.front()];
  const double first = bits_of(codecs.intra, zero.compute);
  const double second = bits_of(codecs.inter, zero.compute);
  if (!zero.quantized_gradients ||
      !collective::find_reduce_scatter(zero.reduce_scatter_algorithm).traits.hierarchical) {
    return first;
  }
  // A rank sends each other rank of its node as many values as there are nodes. It then sends one
  // value to each other node.
  const double nodes = topology.node_count;
  const double inside = (topology.ranks_per_node - 1) * nodes;
  const double across = nodes - 1;
  if (inside + across == 0) return first;
  return (first * inside + second * across) / (inside + across);
}

/// Options of the same run: the codec of the budget instead of adaptive `values`, and only the
/// entries of the schedule that `is_meant` accepts. Nothing where the sizes of units matter.
template <class IsMeant>
std::optional<zero::Options> without_units(zero::Options zero, zero::AdaptedValues values,
                                           const IsMeant& is_meant) {
  if (zero.adaptive_bits.values == values) {
    if (zero.adaptive_bits.budget_bytes > 0) return std::nullopt;
    zero.weight_codec = zero.gradient_codec_intra = zero.gradient_codec_inter =
        zero.adaptive_bits.budget_codec;
  }
  zero.adaptive_bits.values = zero::AdaptedValues::none;
  std::erase_if(zero.codec_schedule, [&](const auto& entry) { return !is_meant(entry); });
  for (const zero::CodecEntry& entry : zero.codec_schedule) {
    if (!entry.units.empty()) return std::nullopt;
  }
  return zero;
}

/// Mean of bits(table, step) over the steps of the run.
template <class Bits>
double mean_over_steps(const std::optional<zero::Options>& zero, std::size_t steps,
                       const Bits& bits) {
  if (!zero) return std::numeric_limits<double>::quiet_NaN();
  const zero::CodecTable table(*zero, {zero::Unit{"any", {}, 0}});
  double sum = 0;
  for (std::uint64_t step = 0; step < steps; ++step) sum += bits(table, step);
  return sum / static_cast<double>(steps);
}

}  // namespace

double weight_bits(const config::TrainConfig& config) {
  const auto zero =
      without_units(config.zero, zero::AdaptedValues::weights,
                    [](const zero::CodecEntry& entry) { return entry.weight_codec.has_value(); });
  return mean_over_steps(zero, config.train_steps, [&](const auto& table, std::uint64_t step) {
    return weight_bits_in_step(table, step, config.zero);
  });
}

double gradient_bits(const config::TrainConfig& config, const comm::Topology& topology) {
  const auto zero =
      without_units(config.zero, zero::AdaptedValues::gradients, [](const zero::CodecEntry& entry) {
        return entry.gradient_codec_intra || entry.gradient_codec_inter;
      });
  return mean_over_steps(zero, config.train_steps, [&](const auto& table, std::uint64_t step) {
    return gradient_bits_in_step(table, step, config.zero, topology);
  });
}

}  // namespace zeropp::converge
