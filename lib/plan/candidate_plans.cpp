#include "lib/plan/candidate_plans.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

#include "lib/plan/op_costs.hpp"
#include "lib/plan/planned_run.hpp"
#include "lib/plan/saturating.hpp"
#include "lib/zero/plan/collectives.hpp"
#include "lib/zero/plan/rank_plan.hpp"
#include "lib/zero/plan/state_memory.hpp"
#include "lib/zero/plan/weight_image_memory.hpp"

namespace zeropp::plan {

namespace {

/// The part of those `known` that was made of `options`, made where there is none.
template <class Parts, class Make>
const auto& found_or_made(Parts& known, const zero::Options& options, const Make& make) {
  for (const auto& [made_of, part] : known) {
    if (made_of == options) return part;
  }
  return known.emplace_back(options, make()).second;
}

/// Things that are alike.
struct Kinds {
  std::vector<std::size_t> first;  ///< of each kind
  std::vector<std::size_t> of;     ///< by thing: its kind
};

template <class KeyOf>
Kinds kinds_of(std::size_t count, const KeyOf& key_of) {
  Kinds kinds;
  std::map<decltype(key_of(std::size_t{0})), std::size_t> known;
  for (std::size_t i = 0; i < count; ++i) {
    const auto [found, added] = known.emplace(key_of(i), kinds.first.size());
    if (added) kinds.first.push_back(i);
    kinds.of.push_back(found->second);
  }
  return kinds;
}

template <class Value>
std::vector<Value> chosen(const std::vector<Value>& values,
                          const std::vector<std::size_t>& indices) {
  std::vector<Value> made;
  made.reserve(indices.size());
  for (const std::size_t index : indices) made.push_back(values[index]);
  return made;
}

/// Volumes of each thing, from those of each kind.
zero::Volumes by_thing(const zero::Volumes& of_kinds, const Kinds& kinds) {
  zero::Volumes made;
  for (std::size_t operation = 0; operation < zero::kOpKinds; ++operation) {
    const std::vector<comm::Bytes>& sent = of_kinds.by_kind.at(operation);
    if (!sent.empty()) made.by_kind.at(operation) = chosen(sent, kinds.of);
  }
  return made;
}

/// Options with as many micro-steps as say all about any number. Which weights stay gathered may
/// differ from one to the next: then it is all of them.
zero::Options with_few_micro_steps(zero::Options options) {
  if (options.stage == 3 && options.max_reuse_distance > 0) return options;
  options.accumulation_steps = std::min<std::size_t>(options.accumulation_steps, 2);
  return options;
}

/// How often a step of `micro_steps` runs an operation of a plan: as often as there are micro-steps
/// like the last of the plan. Where gradients are not sharded, and over the shard groups, only the
/// end of a step sends.
std::size_t times(const zero::Op& op, const zero::StepPlan& plan, std::size_t micro_steps) {
  const bool repeated = plan.input.preset.shard_gradients &&
                        op.micro_step + 1 == plan.input.micro_steps &&
                        op.kind != zero::OpKind::reduce_over_replicas &&
                        op.kind != zero::OpKind::gather_over_replicas;
  return repeated ? 1 + micro_steps - plan.input.micro_steps : 1;
}

}  // namespace

CandidatePlans::CandidatePlans(const comm::Topology& topology, std::vector<zero::Unit> units,
                               std::vector<zero::Layer> layers)
    : topology_(topology), units_(std::move(units)), layers_(std::move(layers)) {}

comm::JobShape CandidatePlans::seen_by(int rank, const zero::Options& options) const {
  return comm::shape_of_job(topology_, rank, options.hpz_partition_size, options.shard_group_size);
}

std::vector<zero::UnitPartition> CandidatePlans::partition(const zero::Options& options) const {
  return zero::plan_units(options, units_, static_cast<std::size_t>(topology_.world_size),
                          seen_by(0, options).shard_groups());
}

CandidatePlans::Weights CandidatePlans::plan_weights(const zero::Options& options) const {
  Weights made{partition(options), zero::CodecTable(options, units_), {}, {}};
  const Kinds kinds = kinds_of(units_.size(), [&](std::size_t unit) {
    return std::tuple(units_[unit].count, made.units[unit].persistent);
  });
  const zero::CodecTable codecs(options, chosen(units_, kinds.first));
  const zero::CodecChoice choice = codecs.at(ordinary_step(options));
  const std::vector<zero::UnitPartition> units = chosen(made.units, kinds.first);
  zero::Volumes sums;
  for (int rank = 0; rank < topology_.ranks_per_node; ++rank) {
    zero::CollectiveDescriptions gathers;
    gathers.describe_weights(options, codecs, units, seen_by(rank, options));
    if (rank == 0) made.memory = chosen(gathers.unit_memory(), kinds.of);
    add(sums, gathers.volumes(choice, &collective::Description::bytes),
        static_cast<std::uint64_t>(topology_.node_count));
  }
  made.volumes = by_thing(sums, kinds);
  return made;
}

CandidatePlans::Reductions CandidatePlans::plan_reductions(const zero::Options& options) const {
  const std::vector<zero::UnitPartition> units = partition(options);
  const zero::CodecTable codecs(options, units_);
  const zero::CodecChoice choice = codecs.at(ordinary_step(options));
  Reductions made{zero::plan_buckets(options, codecs, units, layers_,
                                     seen_by(0, options).sharding().world.size),
                  {},
                  {}};
  // A reduction's plan reads these of a bucket: its size and, where it is one piece of a shard, the
  // size of the shard.
  const Kinds kinds = kinds_of(made.buckets.size(), [&](std::size_t index) {
    const zero::Bucket& bucket = made.buckets[index];
    const zero::UnitPartition& unit = units[bucket.segments.front().unit];
    const std::size_t shard = bucket.segments.size() == 1 ? unit.shard : 0;
    return std::tuple(bucket.count(), shard, unit.gradients);
  });
  zero::Volumes sums;
  for (int rank = 0; rank < topology_.ranks_per_node; ++rank) {
    zero::CollectiveDescriptions reductions;
    reductions.describe_gradients(options, codecs, units, chosen(made.buckets, kinds.first),
                                  seen_by(rank, options));
    if (rank == 0) made.memory = chosen(reductions.bucket_memory(), kinds.of);
    add(sums, reductions.volumes(choice, &collective::Description::bytes),
        static_cast<std::uint64_t>(topology_.node_count));
  }
  made.volumes = by_thing(sums, kinds);
  return made;
}

const CandidatePlans::Weights& CandidatePlans::weights(zero::Options options) {
  options.quantized_gradients = false;
  options.gradient_codec_intra = options.gradient_codec_inter = {};
  options.reduce_scatter_algorithm.clear();
  options.accumulation_steps = 1;
  return found_or_made(weights_, options, [&] { return plan_weights(options); });
}

const CandidatePlans::Reductions& CandidatePlans::reductions(zero::Options options) {
  options.quantized_weights = options.weight_differences.enabled = false;
  options.weight_codec = {};
  options.hpz_partition_size = 1;
  options.secondary_gather_algorithm.clear();
  if (options.stage > 0) options.all_gather_algorithm.clear();  // which gathers sums at stage 0
  options.accumulation_steps = 1;
  return found_or_made(reductions_, options, [&] { return plan_reductions(options); });
}

const zero::StepPlan& CandidatePlans::schedules(zero::Options options, const Weights& weights,
                                                const Reductions& reductions) {
  std::vector<std::size_t> sizes;
  for (const zero::UnitMemory& unit : weights.memory) {
    sizes.insert(sizes.end(), {unit.gather_workspace, unit.secondary_workspace,
                               unit.exchange_workspace, unit.refresh_workspace});
  }
  for (std::size_t b = 0; b < reductions.buckets.size(); ++b) {
    const zero::BucketMemory& bucket = reductions.memory[b];
    sizes.insert(sizes.end(), {reductions.buckets[b].count(), reductions.buckets[b].segments.size(),
                               bucket.workspace, bucket.gather_sum_workspace, bucket.replica_image,
                               bucket.replica_reduce_workspace, bucket.replica_gather_workspace});
  }
  const zero::Options own = options;
  options.quantized_gradients = false;
  options.gradient_codec_intra = options.gradient_codec_inter = {};
  options.hpz_partition_size = options.has_secondary() ? 2 : 1;  // no schedule reads its size
  options.all_gather_algorithm.clear();
  options.secondary_gather_algorithm.clear();
  options.reduce_scatter_algorithm.clear();
  return found_or_made(schedules_[std::move(sizes)], options, [&] {
    return zero::make_schedules(zero::schedule_input(own, weights.units, layers_, weights.memory,
                                                     reductions.buckets, reductions.memory));
  });
}

CandidatePlan CandidatePlans::plan(const zero::Options& asked, const optim::Kept& kept) {
  const zero::Options options = with_few_micro_steps(asked);
  const Weights& of_weights = weights(options);
  const Reductions& of_gradients = reductions(options);
  const zero::StepPlan& schedule = schedules(options, of_weights, of_gradients);
  const bool whole = of_weights.codecs.refreshes_at(ordinary_step(options));
  zero::Volumes volumes = of_weights.volumes;
  for (std::size_t operation = 0; operation < zero::kOpKinds; ++operation) {
    const std::vector<comm::Bytes>& sent = of_gradients.volumes.by_kind.at(operation);
    if (!sent.empty()) volumes.by_kind.at(operation) = sent;
  }
  CandidatePlan made;
  for (const zero::Schedule* part : {&schedule.step.stale, &schedule.update}) {
    for (const zero::Op& op : part->ops) {
      const std::size_t runs = times(op, schedule, asked.accumulation_steps);
      add(made.step, zero::volume(op, volumes), runs);
      made.over_link += copied_over_link(op, of_weights.units, whole) * static_cast<double>(runs);
    }
  }
  made.memory = device_bytes(zero::state_memory(of_weights.units, schedule.input.preset,
                                                options.compute, kept, options.offload_optimizer,
                                                options.offload_param, schedule.input.slabs));
  made.memory += zero::weight_image_memory(options, of_weights.codecs, of_weights.units);
  made.memory += zero::weight_image_table_memory(options, kept, of_weights.codecs, units_,
                                                 of_weights.units, 0);
  made.memory += schedule.arena_bytes();
  return made;
}

}  // namespace zeropp::plan
