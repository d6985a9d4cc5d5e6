#include "lib/plan/update_costs.hpp"

#include <algorithm>
#include <utility>

#include "kernels/codec/codec.hpp"
#include "kernels/optim/registry.hpp"
#include "lib/plan/collective_costs.hpp"
#include "lib/zero/plan/offload_plan.hpp"
#include "lib/zero/plan/weight_image_memory.hpp"

namespace zeropp::plan {

namespace {

constexpr double kWide = sizeof(float);  ///< bytes: of gradients, master weights

/// Rate of an update whose moments are in 8 bits over that of any other, which moves memory nearly
/// as fast as a copy: it finds the scale of each block, and looks up and searches a table for each
/// moment. AdamW that encodes the weights, in CUDA, reaches 77.5 and 94.9 % of a copy
/// (results/1x-NVIDIA-H200/kernels).
constexpr double kRateOfInt8Moments = 0.775 / 0.949;

const codec::CodecSpec& codec_of(const Workload& work, std::size_t unit) {
  return work.codecs.weights(unit)[work.choice.weights[unit]];
}

}  // namespace

bool keeps_image(const Workload& work, std::size_t unit) {
  return codec_of(work, unit) != codec::CodecSpec{} &&
         zero::weight_image_bytes(work.config.zero, work.codecs, work.input.units, unit) > 0;
}

bool writes_refresh(const Workload& work, std::size_t unit) {
  return zero::updates_encode_refreshes(work.config.zero) && work.input.units[unit].persistent &&
         optim::writes_images(optim::kept_by(work.config.optimizer).states);
}

UpdateCosts::UpdateCosts(const Workload& work, const Cluster& cluster)
    : work_(work), cluster_(cluster) {
  if (!offloads()) return;
  std::vector<std::size_t> counts;
  for (std::size_t unit = 0; unit < work.input.units.size(); ++unit)
    counts.push_back(updated(unit));
  offloaded_ = offloaded_updates(
      counts, work.config,
      {.link = cluster.host.link_rate,
       .memory = cluster.host.memory_rate / static_cast<double>(work.topology.ranks_per_node)});
}

OpCost UpdateCosts::of(std::size_t unit) const {
  const auto seconds = [&](double bytes) {
    return kernel_seconds(bytes, cluster_) / cluster_.gpu.step_share;
  };
  const bool int8 = work_.config.optimizer.moments == optim::Moments::int8;
  const double on_device = seconds(updated_bytes(unit)) / (int8 ? kRateOfInt8Moments : 1);
  OpCost cost;
  cost.start.add(Resource::gpu, seconds(normed_bytes(unit)));
  if (!offloads() || on_device > offloaded_[unit]) {
    cost.start.add(Resource::gpu, on_device);
  } else {  // both at the same time
    cost.start.add(Resource::host, offloaded_[unit]);
  }
  return cost;
}

std::size_t UpdateCosts::updated(std::size_t unit) const {
  const zero::UnitPartition& of = work_.input.units[unit];
  return work_.input.preset.shard_optimizer ? of.shard : of.padded;
}

bool UpdateCosts::offloads() const { return work_.config.zero.offload_optimizer.enabled(); }

/// The norm reads gradients in fp32. Updates wait for that of all units, unless they take place in
/// backward.
double UpdateCosts::normed_bytes(std::size_t unit) const {
  if (work_.config.zero.update_in_backward) return static_cast<double>(updated(unit)) * kWide;
  double bytes = 0;
  for (std::size_t each = 0; unit == 0 && each < work_.input.units.size(); ++each) {
    bytes += static_cast<double>(updated(each)) * kWide;
  }
  return bytes;
}

/// The rule reads the gradients, reads and writes the master weights and its states, and writes the
/// weights. Where gathers read the master, these weights are not written, but gathers read as many
/// bytes more: the time of a step is the same within 1 %, with and without a shard in 16 bits
/// (results/2x-NVIDIA-H200/memory). An image replaces these weights; weights that no update encodes
/// itself are read once more.
double UpdateCosts::updated_bytes(std::size_t unit) const {
  const zero::Options& options = work_.config.zero;
  const std::size_t away = zero::offloaded_elements(updated(unit), options.offload_optimizer);
  const auto here = static_cast<double>(updated(unit) - away);
  const double kept = moment_bytes(work_.config.optimizer);
  const double moved = here * (kWide + 2 * (kWide + kept));
  if (!keeps_image(work_, unit) && !writes_refresh(work_, unit))
    return moved + here * static_cast<double>(size_of(options.compute));
  const codec::CodecSpec& codec = codec_of(work_, unit);
  const auto image =
      static_cast<double>(codec::Codec(codec, options.compute).wire_bytes(updated(unit)));
  return moved + image + (zero::image_format(codec, options.compute) ? 0 : here * kWide);
}

double moment_bytes(const optim::Options& optimizer) {
  const optim::Kept kept = optim::kept_by(optimizer);
  return static_cast<double>(kept.bytes(optim::kMomentBlock)) / optim::kMomentBlock;
}

std::vector<double> offloaded_updates(const std::vector<std::size_t>& counts,
                                      const config::TrainConfig& config, const HostRates& host) {
  const zero::Options& options = config.zero;
  const bool narrow = options.compute != Dtype::fp32;
  const auto weight = static_cast<double>(size_of(options.compute));
  const double sent_back = options.offload_param.enabled() ? 0 : weight;
  // The rule reads a gradient, its master weight and states, and writes these two. The narrow
  // weight is written too, into lines that a cache fetches first. The link uses the same memory.
  const double by_rule = sizeof(float) + 2 * (sizeof(float) + moment_bytes(config.optimizer)) +
                         (narrow ? 2 * weight : 0);
  const double by_link = sizeof(float) + sent_back;
  const double stepped = by_rule + by_link;

  const auto pieces = zero::offload_pieces(counts, options.offload_optimizer);
  const std::size_t buffers = std::min(pieces.size(), options.offload_optimizer.buffer_count);
  std::vector<double> stepped_at;  ///< by piece
  std::vector<double> back_at;
  std::vector<double> ended(counts.size(), 0);
  double arrived = 0;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const auto elements = static_cast<double>(pieces[i].extent.count);
    const bool reuses = i >= buffers;  // of the piece before that had its buffer
    arrived = std::max(arrived, reuses ? stepped_at[i - buffers] : 0) +
              sizeof(float) * elements / host.link;
    const double begin =
        std::max({i > 0 ? stepped_at.back() : 0, arrived, reuses ? back_at[i - buffers] : 0});
    stepped_at.push_back(begin + stepped * elements / host.memory);
    back_at.push_back(std::max(i > 0 ? back_at.back() : 0, stepped_at.back()) +
                      sent_back * elements / host.link);
    ended[pieces[i].unit] = stepped_at.back();
  }
  if (!pieces.empty()) ended.back() = back_at.back();
  double before = 0;
  for (double& end : ended) {
    end = std::max(end, before);  // units without a piece take no time
    const double begin = std::exchange(before, end);
    end -= begin;
  }
  return ended;
}

}  // namespace zeropp::plan
