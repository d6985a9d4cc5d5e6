#include "lib/plan/op_costs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <variant>

#include "kernels/codec/spec.hpp"
#include "lib/base/error.hpp"
#include "lib/plan/collective_costs.hpp"
#include "lib/plan/layer_costs.hpp"
#include "lib/plan/update_costs.hpp"
#include "lib/zero/plan/collectives.hpp"
#include "lib/zero/plan/offload_plan.hpp"

namespace zeropp::plan {

namespace {

using zero::Op;
using zero::OpKind;

constexpr double kFp32 = sizeof(float);
/// Forward's share of what an engine moves for a parameter beside its operations: the parameter is
/// gathered there and in backward, where its gradient is made as well.
constexpr double kForwardShare = 0.25;

/// Bytes of a unit's secondary shard.
double copy_bytes(const zero::UnitPartition& unit) {
  return static_cast<double>(unit.secondary * size_of(unit.secondary_dtype));
}

class Costs {
 public:
  Costs(const Workload& work, const Cluster& cluster)
      : work_(work),
        cluster_(cluster),
        options_(work.config.zero),
        world_{.cluster = cluster,
               .nodes = static_cast<std::size_t>(work.topology.node_count),
               .ranks_per_node = static_cast<std::size_t>(work.topology.ranks_per_node),
               .rail_lanes = std::max<std::size_t>(1, work.config.rail_lanes),
               .copy_engines = work.config.copy_engines == comm::CopyEngines::on},
        sharding_(group_of(options_.shard_group_size == zero::kAllRanks
                               ? world_.ranks()
                               : options_.shard_group_size)),
        secondary_(group_of(options_.hpz_partition_size)),
        replicas_(world_),
        rails_(world_),
        choice_(work.choice),
        updates_(work, cluster) {
    secondary_.rail_lanes = 1;  // as hpZ's groups are made
    replicas_.nodes = world_.nodes / sharding_.nodes;
    replicas_.ranks_per_node = world_.ranks_per_node / sharding_.ranks_per_node;
    replicas_.groups_per_node = sharding_.ranks_per_node;
    rails_.ranks_per_node = 1;
    rails_.groups_per_node = world_.ranks_per_node;
    model::Options model = work.config.model;
    model.vocab_size = work.vocab_size;
    layers_ = layer_costs(model, work.config.train_micro_batch_size_per_gpu, options_.compute,
                          cluster.gpu);
    if (model::offloaded_inputs(model) > 0) {
      add_input_copies(layers_, model, work.config.train_micro_batch_size_per_gpu, options_.compute,
                       cluster.host.link_rate);
    }
    const double bytes = cluster.engine.bytes_per_parameter;
    for (std::size_t layer = 0; layer < layers_.size(); ++layer) {
      double parameters = 0;
      for (const std::size_t unit : work.input.layers[layer].units) {
        parameters += static_cast<double>(work.input.units[unit].parameters);
      }
      layers_[layer].forward += kernel(kForwardShare * bytes * parameters);
      layers_[layer].backward += kernel((1 - kForwardShare) * bytes * parameters);
    }
  }

  OpCost of(const Op& op) {
    switch (op.kind) {
      case OpKind::gather:
      case OpKind::refresh:
        return whole(op);
      case OpKind::gather_secondary:
        return behind_link(over_link(op), sent_by(op));
      case OpKind::exchange:
        return exchange(op);
      case OpKind::keep_secondary:
        return keep_secondary(op);
      case OpKind::agree:
        return on_gpu(kernel(counted_bytes()));
      case OpKind::forward:
        return on_gpu(layers_[op.index].forward);
      case OpKind::backward:
        return on_gpu(layers_[op.index].backward);
      case OpKind::clear_gradients:  // gaps between tensors only
      case OpKind::end_reduce:
        return {};
      case OpKind::reduce:
        return summed(op);
      case OpKind::gather_sum:
      case OpKind::reduce_over_replicas:
      case OpKind::gather_over_replicas:
        return joined(sent_by(op));
      case OpKind::update:
        return updates_.of(op.index);
    }
    return {};
  }

 private:
  /// Group of consecutive ranks: part of a node, or whole nodes.
  [[nodiscard]] ClusterGroup group_of(std::size_t ranks) const {
    ClusterGroup group = world_;
    group.nodes = std::max<std::size_t>(1, ranks / world_.ranks_per_node);
    group.ranks_per_node = std::min(ranks, world_.ranks_per_node);
    return group;
  }
  /// The collective that an operation runs.
  [[nodiscard]] zero::Collective collective_of(const Op& op) const {
    // Before the first step there is nothing that differences could be of.
    const OpKind kind = zero::collective_of(op);
    if (zero::sends(kind) == zero::Sends::weights) {
      return zero::weight_collective(
          options_, work_.codecs, unit(op.index),
          zero::key_of(options_, kind, op.index, op.index, choice_).value());
    }
    const zero::Bucket& of = bucket(op.index);
    return zero::gradient_collective(
        options_, work_.codecs, work_.input.units, of, sharding_.ranks(), replicas_.ranks(),
        zero::key_of(options_, kind, op.index, zero::unit_of(of), choice_).value());
  }
  [[nodiscard]] const ClusterGroup& group_of(zero::RankGroup among) const {
    switch (among) {
      case zero::RankGroup::shards:
        break;
      case zero::RankGroup::secondary:
        return secondary_;
      case zero::RankGroup::rail:
        return rails_;
      case zero::RankGroup::replicas:
        return replicas_;
    }
    return sharding_;
  }
  /// Cost of an operation's collective alone.
  OpCost sent_by(const Op& op) {
    const zero::Collective made = collective_of(op);
    const ClusterGroup& group = group_of(made.among);
    OpCost cost;
    if (const collective::ExactGatherPlan* const exact = made.exact()) {
      const double bits = options_.weight_differences.planned_bits;
      cost = gather(shape_of(made.algorithm, *exact, bits), group);
    } else if (std::holds_alternative<collective::AllGatherPlan>(made.plan)) {
      cost = gather(shape_of(made.algorithm, made.gather()), group);
    } else {
      cost = reduce_cost(shape_of(made.algorithm, made.reduction()), group);
    }
    cost.pieces *= made.runs;  // one after the other
    return cost;
  }
  [[nodiscard]] double kernel(double moved) const { return kernel_seconds(moved, cluster_); }
  [[nodiscard]] static OpCost on_gpu(double seconds) {
    OpCost cost;
    cost.start.add(Resource::gpu, seconds);
    return cost;
  }
  [[nodiscard]] double bytes() const { return static_cast<double>(size_of(options_.compute)); }
  [[nodiscard]] const zero::UnitPartition& unit(std::size_t index) const {
    return work_.input.units[index];
  }
  [[nodiscard]] const zero::Bucket& bucket(std::size_t index) const {
    return work_.input.buckets[index];
  }

  /// Both halves on one stream.
  static OpCost joined(OpCost cost) {
    for (const Stage& stage : cost.finish) cost.start.add(stage);
    cost.finish = {};
    return cost;
  }

  /// Whole weights of a unit on every rank: by a gather of them, or of differences that are added
  /// to the resident ones.
  OpCost whole(const Op& op) {
    const zero::Collective made = collective_of(op);
    const zero::UnitPartition& of = unit(op.index);
    if (made.key.transfer == zero::Transfer::differences) {
      OpCost cost = sent_by(op);
      add_difference(cost, of, static_cast<double>(of.padded) * bytes());
      return uploading(op.index, cost);
    }
    GatherShape shape = shape_of(made.algorithm, made.gather());
    if (keeps_image(work_, op.index)) shape.own = OwnImage::copied;
    if (op.kind == OpKind::refresh && op.phase == zero::Phase::update &&
        writes_refresh(work_, op.index)) {
      shape.own = OwnImage::in_place;
    }
    return uploading(op.index, gather(shape, sharding_));
  }

  /// Adds what a difference of a unit reads of the weights and the copy, and writes; a decoded
  /// value is added to the copy, of which `copied` bytes are read once more than a gather's are.
  void add_difference(OpCost& cost, const zero::UnitPartition& of, double copied) const {
    const auto own = static_cast<double>(of.shard * size_of(of.secondary_dtype));
    const double encoded = static_cast<double>(of.shard) * (kFp32 + bytes()) + own;
    const auto pieces = static_cast<double>(cost.pieces);
    cost.start.add(Resource::gpu, kernel(encoded) / pieces);
    cost.finish.add(Resource::gpu, kernel(copied) / pieces);
  }

  /// A gather after what takes `seconds` on the GPU's link to the host.
  static OpCost behind_link(double seconds, const OpCost& sent) {
    if (seconds == 0) return sent;
    OpCost cost{.start = {}, .finish = sent.finish, .pieces = sent.pieces};
    cost.start.add(Resource::host_link, seconds / static_cast<double>(sent.pieces));
    for (const Stage& stage : sent.start) cost.start.add(stage);
    return cost;
  }

  /// A gather of weights that may have to come from the host first.
  [[nodiscard]] OpCost uploading(std::size_t index, const OpCost& sent) const {
    const auto uploaded = static_cast<double>(zero::upload_bytes(unit(index), options_));
    return behind_link(uploaded == 0 ? 0 : uploaded / upload_rate(), sent);
  }

  /// Seconds that an operation's secondary shard takes over the GPU's link to the host; 0 where it
  /// lies on the GPU.
  [[nodiscard]] double over_link(const Op& op) const {
    const double moved = copied_over_link(op, work_.input.units, choice_.whole_weights);
    return moved == 0 ? 0 : moved / cluster_.host.link_rate;
  }

  /// Bytes that are read to count how all weights differ from their copies.
  [[nodiscard]] double counted_bytes() const {
    double read = 0;
    for (const zero::UnitPartition& each : work_.input.units) {
      if (!each.persistent) read += static_cast<double>(each.shard) * (kFp32 + bytes());
    }
    return choice_.whole_weights ? 0 : read;
  }

  [[nodiscard]] OpCost keep_secondary(const Op& op) const {
    const zero::UnitPartition& of = unit(op.index);
    if (!of.secondary_on_host) return on_gpu(kernel(2 * copy_bytes(of)));
    OpCost cost;
    cost.start.add(Resource::host_link, over_link(op));
    return cost;
  }

  /// Exchange along a rail, of whole weights or differences. A copy on the host comes over the
  /// GPU's link before the exchange, unless whole weights replace it, and goes back after it.
  OpCost exchange(const Op& op) {
    const zero::UnitPartition& of = unit(op.index);
    OpCost cost = sent_by(op);
    if (!choice_.whole_weights) add_difference(cost, of, copy_bytes(of));
    cost = joined(cost);
    const double link = over_link(op);
    if (link > 0) cost.start.add(Resource::host_link, link / static_cast<double>(cost.pieces));
    return uploading(op.index, cost);
  }

  [[nodiscard]] double upload_rate() const {
    const bool master =
        zero::gathers_master(options_.compute, options_.offload_optimizer, options_.offload_param);
    const bool locked =
        master ? options_.offload_optimizer.pin_memory : options_.offload_param.pin_memory;
    return locked ? cluster_.host.link_rate : cluster_.host.pageable_rate;
  }

  OpCost gather(const GatherShape& shape, const ClusterGroup& group) {
    for (const auto& [known, where, cost] : gathers_) {
      if (where == &group && known == shape) return cost;
    }
    return gathers_.emplace_back(shape, &group, gather_cost(shape, group)).cost;
  }

  OpCost reduction(const Op& op) {
    const bool packed = zero::is_packed(bucket(op.index));
    const zero::Collective made = collective_of(op);
    const ReduceShape shape = shape_of(made.algorithm, made.reduction());
    for (const Reduction& known : reductions_) {
      if (known.packed == packed && known.shape == shape) return known.cost;
    }
    const OpCost sent = reduce_cost(shape, sharding_);
    OpCost cost{.start = {}, .finish = {}, .pieces = sent.pieces};
    // Bytes of the gradients of all ranks' parts.
    const double gradients = static_cast<double>(size_of(shape.memory)) *
                             static_cast<double>(shape.count) *
                             static_cast<double>(sharding_.ranks());
    if (packed) {  // read and written once more
      cost.start.add(Resource::gpu, kernel(2 * gradients) / static_cast<double>(sent.pieces));
    }
    if (options_.compute == Dtype::fp16) {  // what is beyond its range is looked for
      cost.start.add(Resource::gpu, kernel(gradients) / static_cast<double>(sent.pieces));
    }
    for (const Stage& stage : sent.start) cost.start.add(stage);
    cost.finish = sent.finish;
    return reductions_.emplace_back(shape, packed, cost).cost;
  }

  /// A reduction with what it ends with. A sum that goes into its shard at once, and the whole
  /// gradients of stage 0, are there.
  [[nodiscard]] OpCost summed(const Op& op) {
    OpCost cost = reduction(op);
    if (!work_.input.preset.shard_optimizer || op.result == zero::kNoMemory) return cost;
    const double moved =
        (op.first_sum ? 2 : 3) * kFp32 * static_cast<double>(bucket(op.index).count());
    cost.finish.add(Resource::gpu, kernel(moved) / static_cast<double>(cost.pieces));
    return cost;
  }

  struct Gather {
    GatherShape shape;
    const ClusterGroup* where;
    OpCost cost;
  };
  struct Reduction {
    ReduceShape shape;
    bool packed;
    OpCost cost;
  };

  const Workload& work_;
  const Cluster& cluster_;
  const zero::Options& options_;
  ClusterGroup world_;
  ClusterGroup sharding_;  ///< of the ranks that share a copy
  ClusterGroup secondary_;
  ClusterGroup replicas_;  ///< of the replicas of a shard
  ClusterGroup rails_;
  const zero::CodecChoice& choice_;
  UpdateCosts updates_;
  std::vector<LayerCost> layers_;
  std::vector<Gather> gathers_;  ///< models have few sizes of units
  std::vector<Reduction> reductions_;
};

/// Error where the cluster says nothing of what the offload of `key` is bound by.
Error unknown_host(std::string_view key) {
  return {ExitCode::usage,
          fmt::format("the cluster says nothing of what {} is bound by: give its file a section "
                      "host (inputs/clusters/README.md; memory of the host only), or leave out the "
                      "cluster, or {}",
                      key, key)};
}

}  // namespace

double copied_over_link(const Op& op, const std::vector<zero::UnitPartition>& units,
                        bool whole_weights) {
  const auto copy = [&] {
    const zero::UnitPartition& unit = units[op.index];
    return unit.secondary_on_host ? copy_bytes(unit) : 0;
  };
  switch (op.kind) {
    case OpKind::gather_secondary:
    case OpKind::keep_secondary:
      return copy();
    case OpKind::exchange:
      return whole_weights ? copy() : 2 * copy();
    default:
      return 0;
  }
}

std::vector<OpCost> op_costs(const zero::Schedule& schedule, const Workload& work,
                             const Cluster& cluster) {
  const zero::OffloadOptimizerOptions& offload = work.config.zero.offload_optimizer;
  if (offload.on_file() || (offload.enabled() && !cluster.host.known())) {
    throw unknown_host("zero_optimization.offload_optimizer");
  }
  if (model::offloaded_inputs(work.config.model) > 0 && !cluster.host.known()) {
    throw unknown_host("zeropp.model.cpu_checkpointing");
  }
  // Units that persist keep no copy: where all do, nothing crosses the link.
  const bool crosses_link = std::ranges::any_of(
      work.input.units,
      [](const zero::UnitPartition& unit) { return unit.secondary_on_host && unit.secondary > 0; });
  if (crosses_link && !cluster.host.known()) {
    throw unknown_host("zeropp.hpz_device cpu");
  }
  Costs costs(work, cluster);
  std::vector<OpCost> made;
  made.reserve(schedule.ops.size());
  for (const Op& op : schedule.ops) made.push_back(costs.of(op));
  return made;
}

Sharing sharing(const Cluster& cluster, std::size_t rail_lanes) {
  const std::size_t lanes = std::max<std::size_t>(1, rail_lanes);
  Sharing made;
  const auto at = [](Resource resource) { return static_cast<std::size_t>(resource); };
  made.width[at(Resource::rails)] =
      std::max(1.0, cluster.rails.with(2 * lanes).rate / cluster.rails.with(lanes).rate);
  made.width[at(Resource::node_links)] = cluster.node_links.most / cluster.node_links.rate;
  // One transfer of copy engines fills the links, which have nothing left for another beside it.
  made.demand[at(Resource::copies)] = made.width[at(Resource::node_links)];
  made.gpu_share[at(Resource::node_links)] = cluster.node_links.gpu_share;
  made.gpu_share[at(Resource::copies)] = cluster.node_links.copies_gpu_share;
  made.gpu_share[at(Resource::rails)] = cluster.rails.gpu_share;
  return made;
}

}  // namespace zeropp::plan
