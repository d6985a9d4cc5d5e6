#include "lib/plan/shared_plans.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "lib/plan/op_costs.hpp"
#include "lib/plan/planned_run.hpp"
#include "lib/plan/saturating.hpp"
#include "lib/zero/plan/collective_descriptions.hpp"
#include "lib/zero/plan/rank_plan.hpp"
#include "lib/zero/plan/weight_image_memory.hpp"

namespace zeropp::plan {

namespace {

/// The value of `key`, made when new.
template <class Key, class Value, class Make>
const Value& shared(std::map<Key, Value>& all, const Key& key, const Make& make) {
  const auto found = all.find(key);
  return found != all.end() ? found->second : all.emplace(key, make()).first->second;
}

std::string key_of_weights(const zero::Options& options) {
  return options.quantized_weights ? codec::to_string(options.weight_codec) : "none";
}

std::string key_of_gradients(const zero::Options& options) {
  return options.quantized_gradients
             ? fmt::format("{}/{}", codec::to_string(options.gradient_codec_intra),
                           codec::to_string(options.gradient_codec_inter))
             : "none";
}

std::string key_of_differences(const zero::Options& options) {
  const zero::WeightDifferenceOptions& differences = options.weight_differences;
  return differences.enabled
             ? fmt::format("{} {} {}", codec::to_string(differences.codec),
                           enum_name(differences.copy), differences.refresh_interval)
             : "none";
}

/// Buckets that are alike: one of each, and which one each bucket is like.
struct Kinds {
  std::vector<zero::Bucket> first;
  std::vector<std::size_t> of;
};

/// What a reduction's plan reads of a bucket: its size and, where it is one piece of a shard, that
/// shard's.
Kinds kinds_of(const std::vector<zero::Bucket>& buckets,
               const std::vector<zero::UnitPartition>& units) {
  Kinds kinds;
  std::map<std::tuple<std::size_t, std::size_t, Dtype>, std::size_t> known;
  for (const zero::Bucket& bucket : buckets) {
    const zero::UnitPartition& unit = units[bucket.segments.front().unit];
    const std::size_t shard = bucket.segments.size() == 1 ? unit.shard : 0;
    const auto [found, added] =
        known.emplace(std::tuple{bucket.count(), shard, unit.gradients}, kinds.first.size());
    if (added) kinds.first.push_back(bucket);
    kinds.of.push_back(found->second);
  }
  return kinds;
}

/// Collectives that send weights.
constexpr std::array kOfWeights{zero::OpKind::gather, zero::OpKind::gather_secondary,
                                zero::OpKind::exchange, zero::OpKind::refresh};

/// Options with as many micro-steps as say all about any number. Which weights stay gathered may
/// differ from one to the next: then it is all of them.
zero::Options with_few_micro_steps(zero::Options options) {
  if (options.stage == 3 && options.max_reuse_distance > 0) return options;
  options.accumulation_steps = std::min<std::size_t>(options.accumulation_steps, 2);
  return options;
}

/// Bytes of a step over the link to copies in the host's memory. Micro-steps as in step_bytes().
double step_bytes_over_link(const zero::StepPlan& plan,
                            const std::vector<zero::UnitPartition>& units, bool whole_weights,
                            std::size_t micro_steps) {
  const std::size_t further = micro_steps - plan.input.micro_steps;
  double total = 0;
  for (const zero::Op& op : plan.step.stale.ops) {
    const bool repeated = op.micro_step + 1 == plan.input.micro_steps;
    total += copied_over_link(op, units, whole_weights) *
             static_cast<double>(repeated ? 1 + further : 1);
  }
  return total;
}

/// Bytes of a step and its update. Micro-steps beyond those of the schedule send what the last of
/// it sends; where gradients are not sharded only the end of a step sends.
comm::Bytes step_bytes(const zero::StepPlan& plan, const zero::Volumes& volumes,
                       std::size_t micro_steps) {
  comm::Bytes total = saturated_volume(plan.step.stale, volumes);
  add(total, saturated_volume(plan.update, volumes));
  const std::size_t further = micro_steps - plan.input.micro_steps;
  if (further == 0 || !plan.input.preset.shard_gradients) return total;
  comm::Bytes last;
  for (const zero::Op& op : plan.step.stale.ops) {
    if (op.micro_step + 1 == plan.input.micro_steps) add(last, zero::volume(op, volumes));
  }
  add(total, last, further);
  return total;
}

}  // namespace

SharedPlans::SharedPlans(const comm::Topology& topology, std::vector<zero::Unit> units,
                         std::vector<zero::Layer> layers)
    : topology_(topology), units_(std::move(units)), layers_(std::move(layers)) {
  for (const zero::Unit& unit : units_) {
    const auto found = std::ranges::find(kinds_, unit.count, &zero::Unit::count);
    kind_of_.push_back(static_cast<std::size_t>(found - kinds_.begin()));
    if (found == kinds_.end()) kinds_.push_back(unit);
  }
}

const std::vector<zero::UnitPartition>& SharedPlans::partition(const zero::Options& options) {
  const std::string key = fmt::format(
      "{} {} {} {} {} {}", options.hpz_partition_size, enum_name(options.hpz_device),
      name_of(options.compute), name_of(options.gradient_dtype),
      zero::stage_preset(options.stage).shard_parameters,
      options.exchanges_differences() ? enum_name(options.weight_differences.copy) : "");
  return shared(partitions_, key, [&] {
    return zero::plan_units(options, units_, static_cast<std::size_t>(topology_.world_size), 1);
  });
}

const zero::CodecTable& SharedPlans::codecs(const zero::Options& options) {
  const std::string key =
      fmt::format("{} {} {} {}", key_of_weights(options), key_of_gradients(options),
                  key_of_differences(options), options.refreshes_differences());
  return shared(codecs_, key, [&] { return zero::CodecTable(options, units_); });
}

SharedPlans::Gathers SharedPlans::plan_gathers(const zero::Options& asked) {
  zero::Options options = asked;
  options.persistence_threshold = 0;  // no gather of a unit that persists is read
  const zero::CodecTable table(options, kinds_);
  const auto partitions =
      zero::plan_units(options, kinds_, static_cast<std::size_t>(topology_.world_size), 1);
  Gathers of_kinds;
  of_kinds.workspaces.resize(kinds_.size());
  zero::CodecChoice only_codec;
  only_codec.weights.resize(kinds_.size());
  only_codec.whole_weights = table.refreshes_at(ordinary_step(options));
  for (int rank = 0; rank < topology_.ranks_per_node; ++rank) {
    const zero::WeightDescriptions gather(
        options, table, partitions,
        comm::shape_of_job(topology_, rank, options.hpz_partition_size, 0));
    if (rank == 0) gather.add_memory(of_kinds.workspaces);
    zero::Volumes volumes;
    gather.add_volumes(only_codec, volumes);
    for (const zero::OpKind kind : kOfWeights) {
      add(of_kinds.volumes[kind], volumes[kind], static_cast<std::uint64_t>(topology_.node_count));
    }
  }
  Gathers made;
  for (const std::size_t kind : kind_of_) {
    made.workspaces.push_back(of_kinds.workspaces[kind]);
    for (const zero::OpKind operation : kOfWeights) {
      const std::vector<comm::Bytes>& bytes = of_kinds.volumes[operation];
      if (!bytes.empty()) made.volumes[operation].push_back(bytes[kind]);
    }
  }
  return made;
}

const SharedPlans::Gathers& SharedPlans::gathers(const zero::Options& options) {
  zero::Options over_all = options;
  over_all.hpz_partition_size = 1;
  if (options.exchanges_differences()) over_all.weight_differences.enabled = false;
  const std::string key = fmt::format("{} {} {} {} {} {}", options.stage, key_of_weights(options),
                                      key_of_differences(over_all), options.all_gather_algorithm,
                                      options.pipeline_depth, name_of(options.compute));
  return shared(gathers_, key, [&] { return plan_gathers(over_all); });
}

const SharedPlans::Gathers& SharedPlans::secondary_gathers(const zero::Options& options) {
  std::string key = fmt::format("{} {} {}", options.hpz_partition_size,
                                options.secondary_gather_algorithm, name_of(options.compute));
  if (options.exchanges_differences()) {
    key += fmt::format(" {} {} {} {}", key_of_weights(options), key_of_differences(options),
                       options.pipeline_depth, enum_name(options.hpz_device));
  }
  return shared(secondary_, key, [&] { return plan_gathers(options); });
}

const SharedPlans::Reductions& SharedPlans::reductions(const zero::Options& options) {
  const bool gathers_sums = options.stage == 0;
  const std::string key = fmt::format(
      "{} {} {} {} {} {} {}", key_of_gradients(options), options.reduce_scatter_algorithm,
      gathers_sums ? options.all_gather_algorithm : "", options.pipeline_depth,
      options.reduce_bucket_size, name_of(options.compute), name_of(options.gradient_dtype));
  return shared(reductions_, key, [&] {
    const auto& units = partition(options);
    const zero::CodecTable& table = codecs(options);
    Reductions made;
    made.buckets = zero::plan_buckets(options, table, units, layers_,
                                      static_cast<std::size_t>(topology_.world_size));
    const Kinds kinds = kinds_of(made.buckets, units);
    Reductions of_kinds;
    const std::vector<std::size_t> only_codecs(units.size(), 0);
    for (int rank = 0; rank < topology_.ranks_per_node; ++rank) {
      const zero::GradientDescriptions reduce(options, table, units, kinds.first,
                                              comm::shape_of_job(topology_, rank, 0, 0));
      if (rank == 0) of_kinds.memory = reduce.memory;
      zero::Volumes volumes;
      reduce.add_volumes(only_codecs, volumes);
      const auto nodes = static_cast<std::uint64_t>(topology_.node_count);
      add(of_kinds.bytes, volumes[zero::OpKind::reduce], nodes);
      add(of_kinds.gather_sum, volumes[zero::OpKind::gather_sum], nodes);
    }
    for (const std::size_t kind : kinds.of) {
      made.memory.push_back(of_kinds.memory[kind]);
      made.bytes.push_back(of_kinds.bytes[kind]);
      if (gathers_sums) made.gather_sum.push_back(of_kinds.gather_sum[kind]);
    }
    return made;
  });
}

const zero::StepPlan& SharedPlans::schedules(const zero::Options& options, const Gathers& global,
                                             const Gathers* secondary,
                                             const Reductions& reductions) {
  std::vector<zero::UnitMemory> workspaces = global.workspaces;
  if (secondary != nullptr) {
    for (std::size_t u = 0; u < workspaces.size(); ++u) {
      workspaces[u].secondary_workspace = secondary->workspaces[u].secondary_workspace;
      workspaces[u].exchange_workspace = secondary->workspaces[u].exchange_workspace;
    }
  }
  // Whatever a schedule reads, but for what is the same in all of one SharedPlans. It does not read
  // how large secondary shards are.
  std::vector<std::size_t> key{static_cast<std::size_t>(options.stage),
                               secondary != nullptr ? 1U : 0U,
                               options.exchanges_differences() ? 1U : 0U,
                               options.accumulation_steps,
                               options.prefetch_bucket_size,
                               options.overlap_comm ? 1U : 0U,
                               options.offload_param.enabled() ? 1U : 0U,
                               size_of(options.compute)};
  for (const zero::UnitMemory& memory : workspaces) {
    key.insert(key.end(), {memory.gather_workspace, memory.secondary_workspace,
                           memory.exchange_workspace, memory.refresh_workspace});
  }
  for (std::size_t b = 0; b < reductions.buckets.size(); ++b) {
    key.insert(key.end(),
               {reductions.buckets[b].count(), reductions.buckets[b].segments.size(),
                reductions.memory[b].workspace, reductions.memory[b].gather_sum_workspace});
  }
  return shared(schedules_, key, [&] {
    return zero::make_schedules(zero::schedule_input(options, partition(options), layers_,
                                                     std::move(workspaces), reductions.buckets,
                                                     reductions.memory));
  });
}

SharedPlan SharedPlans::plan(const zero::Options& asked, const optim::Kept& kept) {
  const zero::Options options = with_few_micro_steps(asked);
  const Gathers& global = gathers(options);
  const Gathers* secondary = options.has_secondary() ? &secondary_gathers(options) : nullptr;
  const Reductions& reduced = reductions(options);
  const zero::StepPlan& plan = schedules(options, global, secondary, reduced);
  SharedPlan made;
  zero::Volumes volumes = global.volumes;
  if (secondary != nullptr) {
    for (const zero::OpKind kind : {zero::OpKind::gather_secondary, zero::OpKind::exchange}) {
      volumes[kind] = secondary->volumes[kind];
    }
  }
  volumes[zero::OpKind::reduce] = reduced.bytes;
  volumes[zero::OpKind::gather_sum] = reduced.gather_sum;
  made.step = step_bytes(plan, volumes, asked.accumulation_steps);
  made.state = device_bytes(
      zero::state_memory(partition(options), zero::stage_preset(options.stage), options.compute,
                         kept, options.offload_optimizer, options.offload_param, plan.input.slabs));
  made.state += zero::weight_image_memory(options, codecs(options), partition(options));
  made.state += zero::weight_image_table_memory(options, kept, codecs(options), units_,
                                                partition(options), 0);
  made.arena = plan.arena_bytes();
  made.copied_over_link = step_bytes_over_link(plan, partition(options),
                                               codecs(options).refreshes_at(ordinary_step(options)),
                                               asked.accumulation_steps);
  made.schedules = &plan;
  made.codecs = &codecs(options);
  made.units = &units_;
  made.partition = &partition(options);
  return made;
}

}  // namespace zeropp::plan
