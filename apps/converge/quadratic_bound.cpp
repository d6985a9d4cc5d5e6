#include "apps/converge/quadratic_bound.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "lib/base/error.hpp"
#include "lib/collective/collective.hpp"
#include "lib/zero/plan/partition.hpp"
#include "lib/zero/plan/rank_plan.hpp"

namespace zeropp::converge {

namespace {

/// Parameters of `segments` that one rank owns; what no parameter fills is left out: it is zero,
/// and stands at the end of a unit.
Image owned(const std::vector<zero::Segment>& segments,
            const std::vector<zero::UnitPartition>& units, const model::Quadratic& model,
            std::size_t rank) {
  Image image;
  for (const zero::Segment& segment : segments) {
    const zero::UnitPartition& unit = units[segment.unit];
    for (std::size_t i = 0; i < segment.count; ++i) {
      const std::size_t at = rank * unit.shard + segment.offset + i;
      if (at < unit.parameters) image.push_back(model.first(segment.unit) + at);
    }
  }
  return image;
}

}  // namespace

void require_plain_descent(const config::TrainConfig& config) {
  const auto need = [](bool holds, const char* what) {
    if (holds) return;
    throw Error(ExitCode::usage,
                fmt::format("level quadratic needs {}: its bound is derived for that", what));
  };
  need(!model::is_transformer(config.model), "zeropp.model.name quadratic");
  need(config.model.num_layers == 1, "zeropp.model.num_layers 1");
  need(config.zero.compute == Dtype::fp32, "fp32, without bf16.enabled or fp16.enabled");
  need(config.optimizer.type == "SGD" && config.optimizer.momentum == 0 &&
           config.optimizer.weight_decay == 0,
       "optimizer.type SGD without momentum and weight_decay");
  need(!config.zero.quantized_gradients ||
           config.zero.error_feedback.hops == zero::FeedbackHops::none,
       "zeropp.error_feedback.hops none");
  need(config.optimizer.schedule.type == "constant", "scheduler.type constant");
  need(config.zero.codec_schedule.empty() &&
           config.zero.adaptive_bits.values == zero::AdaptedValues::none,
       "one codec for all steps, without zeropp.codec_schedule and adaptive_bits");
  need(config.zero.gradient_clipping == 0, "gradient_clipping 0");
  need(config.zero.shard_group_size == zero::kAllRanks, "zeropp.shard_group_size 0");
  need(config.gradient_accumulation_steps == 1, "gradient_accumulation_steps 1");
  need(!config.zero.quantized_gradients ||
           collective::find_reduce_scatter(config.zero.reduce_scatter_algorithm).traits.feedback,
       "zeropp.reduce_scatter_algorithm 1-hop or 2-hop with zero_quantized_gradients");
}

Descent describe_descent(const config::TrainConfig& config, const comm::Topology& topology,
                         const model::Quadratic& model) {
  const zero::Options& zero = config.zero;
  const auto ranks = static_cast<std::size_t>(topology.world_size);
  const std::vector<zero::Unit>& layout = model.units();
  const auto units = zero::partition_units(layout, ranks, zero.hpz_partition_size, zero.compute, 1,
                                           zero.shard_multiple);
  Descent descent;
  for (std::size_t p = 0; p < config.model.hidden_size; ++p) {
    descent.curvature.push_back(model::Quadratic::curvature(p));
  }
  descent.step_size = static_cast<float>(config.optimizer.learning_rate);
  descent.ranks = ranks;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    for (std::size_t u = 0; u < units.size(); ++u) {
      descent.gathered.push_back(owned({{u, 0, units[u].shard}}, units, model, rank));
    }
    for (const zero::Bucket& bucket :
         zero::make_buckets(units, zero::gradient_order(model.layers(), units.size()), ranks,
                            zero.reduce_bucket_size, zero::bucket_quantum(zero))) {
      descent.reduced.push_back(owned(bucket.segments, units, model, rank));
    }
  }
  const auto bound = [&](const codec::CodecSpec& spec) {
    return CodecBound::of(codec::Codec(spec, zero.compute));
  };
  if (zero.quantized_weights) descent.weights = bound(zero.weight_codec);
  if (!zero.quantized_gradients) return descent;
  // A reduction of one hop adds up everything at once; so does one of two hops where one of them
  // has nobody to send to.
  const bool two_hops =
      collective::find_reduce_scatter(zero.reduce_scatter_algorithm).traits.hierarchical;
  const bool inside = !two_hops || topology.ranks_per_node > 1;
  const bool across = two_hops && topology.node_count > 1;
  if (inside) descent.first = bound(zero.gradient_codec_intra);
  if (across) descent.second = bound(zero.gradient_codec_inter);
  descent.ranks_per_node = two_hops ? static_cast<std::size_t>(topology.ranks_per_node) : ranks;
  return descent;
}

QuadraticBound::QuadraticBound(const config::TrainConfig& config, const comm::Topology& topology,
                               const data::Sampler& sampler, std::size_t vocab_size,
                               std::size_t rows)
    : unit_sizes_(config.model.num_layers, config.model.hidden_size),
      ranks_(static_cast<std::size_t>(topology.world_size)),
      step_size_(static_cast<float>(config.optimizer.learning_rate)),
      interval_(std::max<std::uint64_t>(1, config.train_steps / rows)),
      sampler_(sampler),
      model_(unit_sizes_, vocab_size, timers_),
      envelope_(describe_descent(config, topology, model_)) {}

std::vector<float> QuadraticBound::weights_of(const zero::Engine& engine) const {
  std::vector<float> weights;
  for (std::size_t unit = 0; unit < unit_sizes_.size(); ++unit) {
    const std::vector<float> flat = engine.gather_master(unit);
    if (flat.empty()) continue;  // another rank than 0
    weights.insert(weights.end(), flat.begin(),
                   flat.begin() + static_cast<std::ptrdiff_t>(unit_sizes_[unit]));
  }
  return weights;
}

void QuadraticBound::begin(const zero::Engine& engine) {
  weights_ = weights_of(engine);
  closed_.assign(weights_.begin(), weights_.end());
}

double QuadraticBound::distance(std::span<const float> weights) const {
  double sum = 0;
  for (std::size_t p = 0; p < weights.size(); ++p) {
    const double apart = static_cast<double>(weights[p]) - closed_[p];
    sum += apart * apart;
  }
  return std::sqrt(sum);
}

void QuadraticBound::stepped(std::uint64_t done, const zero::Engine& engine) {
  std::vector<float> now = weights_of(engine);
  if (now.empty()) return;
  std::vector<std::vector<double>> gradients(ranks_, std::vector<double>(now.size()));
  double mean_tilt = 0;
  data::TokenBatch batch;
  for (std::size_t rank = 0; rank < ranks_; ++rank) {
    sampler_.train(done - 1, 0, {rank, ranks_}, batch);
    const double tilt = model_.tilt(batch.targets);
    for (std::size_t p = 0; p < now.size(); ++p) {
      gradients[rank][p] = model_.gradient(p, weights_[p], tilt);
    }
    mean_tilt += tilt / static_cast<double>(ranks_);
  }
  envelope_.step(weights_, gradients);
  for (std::size_t p = 0; p < now.size(); ++p) {
    closed_[p] -= step_size_ * model_.gradient(p, closed_[p], mean_tilt);
  }
  weights_ = std::move(now);

  const double apart = distance(weights_);
  const double bound = envelope_.bound();
  ++summary_.steps;
  if (!(apart <= bound)) ++summary_.violations;  // NaN is one
  summary_.largest_ratio = std::max(summary_.largest_ratio, apart / bound);
  if (done % interval_ == 0 || done == 1) summary_.rows.push_back({done, apart, bound});
}

}  // namespace zeropp::converge
