#include "lib/zero/plan/collectives.hpp"

#include <algorithm>
#include <string>

#include "lib/base/checked.hpp"

namespace zeropp::zero {

namespace {

/// Packed values begin where a buffer may.
constexpr std::size_t kPackingAlignment = 256;
/// In one step.
constexpr std::string_view kDirect = "direct";
constexpr std::string_view kAlongRail = kDirect;
/// Sums over the shard groups have one step, and the same order of additions in every run.
constexpr std::string_view kReplicaReduce = "1-hop";
constexpr std::string_view kReplicaGather = "direct";

/// Parts of a bucket's gradients, as they lie: packed, or in the buffer of its one unit.
collective::Parts parts_of(const std::vector<UnitPartition>& units, const Bucket& bucket) {
  const std::size_t count = bucket.count();
  return {count, is_packed(bucket) ? count : units[unit_of(bucket)].shard};
}

/// Codec of the gather of sums, by the codec of the hop across nodes: sums are fp32, and travel
/// without a codec as weights do.
codec::CodecSpec codec_of_sums(const codec::CodecSpec& inter, Dtype compute) {
  if (inter != codec::CodecSpec{} || compute == Dtype::fp32) return inter;
  return {std::string(name_of(compute)), 0, {}};
}

/// Feedback of a bucket's sum over the shard groups.
std::optional<collective::Feedback> replica_feedback(const Options& options,
                                                     std::size_t shard_groups) {
  const auto feedback = feedback_of(options);
  if (!feedback || !feedback->inter || shard_groups == 1) return std::nullopt;
  return collective::Feedback{.options = *feedback};
}

collective::Ranks ranks_of(const comm::JobShape& job, RankGroup among) {
  switch (among) {
    case RankGroup::shards:
      return {job.sharding(), job.sharding().world};
    case RankGroup::secondary:
      return {job, *job.secondary};
    case RankGroup::rail:
      return {job, job.rail};
    case RankGroup::replicas:
      return {job, *job.replicas};
  }
  return {};
}

/// The collective of a unit's exact differences: along a rail, or on all ranks as whole weights go
/// where those go in two levels.
Collective exact_collective(const Options& options, const UnitPartition& unit,
                            const CollectiveKey& key) {
  Collective made{key, kDirect, RankGroup::rail, {}};
  if (options.refreshes_differences()) {
    made.among = RankGroup::shards;
    if (collective::all_gather_traits(options.all_gather_algorithm).hierarchical)
      made.algorithm = options.all_gather_algorithm;
  }
  made.plan = collective::ExactGatherPlan{
      .count = unit.shard, .dtype = options.compute, .purpose = "weights_difference"};
  return made;
}

collective::Description describe(const Collective& made, const comm::JobShape& job,
                                 double planned_bits) {
  const collective::Ranks ranks = ranks_of(job, made.among);
  collective::Description described;
  if (const collective::ExactGatherPlan* const exact = made.exact()) {
    described = collective::describe_exact_gather(made.algorithm, ranks, *exact,
                                                  shape_of_bits(exact->count, planned_bits));
  } else if (std::holds_alternative<collective::AllGatherPlan>(made.plan)) {
    described = collective::describe_all_gather(made.algorithm, ranks, made.gather());
  } else {
    described = collective::describe_reduce_scatter(made.algorithm, ranks, made.reduction());
  }
  for (comm::Bytes* const sent : {&described.bytes, &described.messages}) {
    sent->intra *= made.runs;
    sent->inter *= made.runs;
  }
  described.workspace = made.before + made.runs * described.workspace;
  described.runs = made.runs;
  return described;
}

}  // namespace

Collective weight_collective(const Options& options, const CodecTable& codecs,
                             const UnitPartition& unit, const CollectiveKey& key) {
  Collective made{key, options.all_gather_algorithm, RankGroup::shards, {}};
  collective::AllGatherPlan plan{.parts = collective::Parts::dense(unit.shard),
                                 .memory = options.compute,
                                 .depth = options.pipeline_depth};
  switch (key.transfer) {
    case Transfer::secondary:
      made.algorithm = options.secondary_gather_algorithm;
      made.among = RankGroup::secondary;
      made.runs = unit.secondary_pieces;
      made.before = staged_part_bytes(options, unit);
      plan.parts = collective::Parts::dense(unit.secondary / unit.secondary_pieces);
      plan.depth = 1;
      plan.purpose = "weights_secondary";
      break;
    case Transfer::differences:
      if (options.weight_differences.exact) return exact_collective(options, unit, key);
      made.before = difference_bytes(options, unit);
      if (options.exchanges_differences()) {
        made.algorithm = kAlongRail;
        made.among = RankGroup::rail;
        made.before += staged_copy_bytes(unit);
      }
      plan.codec = options.weight_differences.codec;
      plan.result = unit.secondary_dtype;
      plan.adds = true;
      plan.purpose = "weights_difference";
      break;
    case Transfer::copies:
      made.algorithm = kAlongRail;
      made.among = RankGroup::rail;
      made.before = staged_copy_bytes(unit);
      plan.codec = codecs.weights(key.index)[key.codec];
      plan.result = unit.secondary_dtype;
      plan.purpose = "weights_copy";
      break;
    default:  // Transfer::weights
      plan.codec = codecs.weights(key.index)[key.codec];
      plan.purpose = "weights";
  }
  made.plan = std::move(plan);
  return made;
}

Collective gradient_collective(const Options& options, const CodecTable& codecs,
                               const std::vector<UnitPartition>& units, const Bucket& bucket,
                               std::size_t shards, std::size_t shard_groups,
                               const CollectiveKey& key) {
  const GradientCodecs& hops = codecs.gradients(unit_of(bucket))[key.codec];
  const auto replica_parts = [&] {
    return collective::Parts::dense(replica_part(bucket, shard_groups, options.compute));
  };
  Collective made{key, options.reduce_scatter_algorithm, RankGroup::shards, {}};
  switch (key.transfer) {
    case Transfer::sums:
      made.algorithm = options.all_gather_algorithm;
      made.before = packing_bytes(units, bucket, shards);
      made.plan = collective::AllGatherPlan{.parts = parts_of(units, bucket),
                                            .depth = options.pipeline_depth,
                                            .purpose = "gradients"};
      break;
    case Transfer::replica_reduce:
      made.algorithm = kReplicaReduce;
      made.among = RankGroup::replicas;
      made.plan = collective::ReduceScatterPlan{.parts = replica_parts(),
                                                .plain = options.compute,
                                                .codec_first = hops.inter,
                                                .depth = options.pipeline_depth,
                                                .purpose = "gradients_across",
                                                .feedback = replica_feedback(options, shard_groups),
                                                .only_hop = 2};
      break;
    case Transfer::replica_gather:
      made.algorithm = kReplicaGather;
      made.among = RankGroup::replicas;
      made.plan = collective::AllGatherPlan{.parts = replica_parts(),
                                            .codec = codec_of_sums(hops.inter, options.compute),
                                            .depth = options.pipeline_depth,
                                            .purpose = "gradients_across",
                                            .feedback = replica_feedback(options, shard_groups)};
      break;
    default: {  // Transfer::gradients
      collective::ReduceScatterPlan plan{.parts = parts_of(units, bucket),
                                         .memory = units[unit_of(bucket)].gradients,
                                         .plain = options.compute,
                                         .codec_first = hops.intra,
                                         .codec_second = hops.inter,
                                         .depth = options.pipeline_depth,
                                         .purpose = "gradients"};
      if (const auto feedback = feedback_of(options)) plan.feedback = {.options = *feedback};
      made.before = packing_bytes(units, bucket, shards);
      made.plan = std::move(plan);
    }
  }
  return made;
}

void for_each_weight_collective(const Options& options, const CodecTable& codecs,
                                const std::vector<UnitPartition>& units,
                                const VisitCollective& visit) {
  for (std::size_t u = 0; u < units.size(); ++u) {
    const auto visit_codecs = [&](Transfer transfer, std::size_t count) {
      for (std::size_t c = 0; c < count; ++c)
        visit(weight_collective(options, codecs, units[u], {transfer, u, c}));
    };
    const std::size_t whole = codecs.weights(u).size();
    visit_codecs(Transfer::weights, whole);
    if (options.refreshes_differences()) visit_codecs(Transfer::differences, 1);
    if (units[u].secondary == 0) continue;
    visit_codecs(Transfer::secondary, 1);
    if (!options.exchanges_differences()) continue;
    visit_codecs(Transfer::differences, 1);
    visit_codecs(Transfer::copies, whole);
  }
}

void for_each_gradient_collective(const Options& options, const CodecTable& codecs,
                                  const std::vector<UnitPartition>& units,
                                  const std::vector<Bucket>& buckets, std::size_t shards,
                                  std::size_t shard_groups, const VisitCollective& visit) {
  for (std::size_t b = 0; b < buckets.size(); ++b) {
    const auto visit_one = [&](Transfer transfer, std::size_t codec) {
      visit(gradient_collective(options, codecs, units, buckets[b], shards, shard_groups,
                                {transfer, b, codec}));
    };
    for (std::size_t c = 0; c < codecs.gradients(unit_of(buckets[b])).size(); ++c) {
      visit_one(Transfer::gradients, c);
      if (shard_groups == 1) continue;
      visit_one(Transfer::replica_reduce, c);
      visit_one(Transfer::replica_gather, c);
    }
    if (!stage_preset(options.stage).shard_optimizer) visit_one(Transfer::sums, 0);
  }
}

std::optional<CollectiveKey> key_of(const Options& options, OpKind kind, std::size_t index,
                                    std::size_t unit, const CodecChoice& choice) {
  const auto whole = [&](Transfer transfer) {
    return CollectiveKey{transfer, index, choice.weights[unit]};
  };
  const auto reduced = [&](Transfer transfer) {
    return CollectiveKey{transfer, index, choice.gradients[unit]};
  };
  switch (kind) {
    case OpKind::gather:
      return whole(Transfer::weights);
    case OpKind::refresh:
      if (options.refreshes_differences() && !choice.whole_weights)
        return CollectiveKey{Transfer::differences, index};
      return whole(Transfer::weights);
    case OpKind::gather_secondary:
      return CollectiveKey{Transfer::secondary, index};
    case OpKind::exchange:
      if (!choice.whole_weights) return CollectiveKey{Transfer::differences, index};
      return whole(Transfer::copies);
    case OpKind::reduce:
      return reduced(Transfer::gradients);
    case OpKind::gather_sum:
      return CollectiveKey{Transfer::sums, index};
    case OpKind::reduce_over_replicas:
      return reduced(Transfer::replica_reduce);
    case OpKind::gather_over_replicas:
      return reduced(Transfer::replica_gather);
    case OpKind::keep_secondary:
    case OpKind::agree:
    case OpKind::forward:
    case OpKind::backward:
    case OpKind::clear_gradients:
    case OpKind::end_reduce:
    case OpKind::update:
      break;
  }
  return std::nullopt;
}

void CollectiveDescriptions::describe_weights(const Options& options, const CodecTable& codecs,
                                              const std::vector<UnitPartition>& units,
                                              const comm::JobShape& job) {
  options_ = options;
  job_ = job;
  unit_memory_.resize(units.size());
  for_each_weight_collective(options, codecs, units, [&](const Collective& made) {
    collective::Description described =
        describe(made, job, options.weight_differences.planned_bits);
    UnitMemory& memory = unit_memory_[made.key.index];
    const auto lend = [&](std::size_t& workspace) {
      workspace = std::max(workspace, described.workspace);
    };
    if (made.key.transfer == Transfer::weights) {
      lend(memory.gather_workspace);
      lend(memory.refresh_workspace);
    } else if (made.key.transfer == Transfer::secondary) {
      lend(memory.secondary_workspace);
    } else {
      lend(made.among == RankGroup::rail ? memory.exchange_workspace : memory.refresh_workspace);
    }
    table_.add(made.key, std::move(described));
  });
}

void CollectiveDescriptions::describe_gradients(const Options& options, const CodecTable& codecs,
                                                const std::vector<UnitPartition>& units,
                                                const std::vector<Bucket>& buckets,
                                                const comm::JobShape& job) {
  options_ = options;
  for (const Bucket& bucket : buckets) {
    bucket_units_.push_back(unit_of(bucket));
    BucketMemory& memory = bucket_memory_.emplace_back();
    memory.sum = bucket.count() * sizeof(float);
    const std::size_t groups = job.shard_groups();
    if (groups == 1) continue;
    const std::size_t part = replica_part(bucket, groups, options.compute);
    memory.replica_image = replica_packing_bytes(bucket, groups, part) + part * sizeof(float);
  }
  const auto visit = [&](const Collective& made) {
    collective::Description described =
        describe(made, job, options.weight_differences.planned_bits);
    BucketMemory& memory = bucket_memory_[made.key.index];
    std::size_t& workspace =
        made.key.transfer == Transfer::sums             ? memory.gather_sum_workspace
        : made.key.transfer == Transfer::replica_reduce ? memory.replica_reduce_workspace
        : made.key.transfer == Transfer::replica_gather ? memory.replica_gather_workspace
                                                        : memory.workspace;
    workspace = std::max(workspace, described.workspace);
    table_.add(made.key, std::move(described));
  };
  for_each_gradient_collective(options, codecs, units, buckets, job.sharding().world.size,
                               job.shard_groups(), visit);
}

const collective::Description* CollectiveDescriptions::find(OpKind kind, std::size_t index,
                                                            const CodecChoice& choice) const {
  const bool of_units = sends(kind) == Sends::weights;
  if (index >= (of_units ? unit_memory_.size() : bucket_units_.size())) return nullptr;
  const auto key = key_of(options_, kind, index, of_units ? index : bucket_units_[index], choice);
  return key ? table_.find(*key) : nullptr;
}

comm::Bytes CollectiveDescriptions::exact_bytes(const UnitPartition& unit,
                                                const codec::ExactShape& shape) const {
  const Collective made = exact_collective(options_, unit, {Transfer::differences, 0});
  return collective::describe_exact_gather(made.algorithm, ranks_of(job_, made.among),
                                           *made.exact(), shape)
      .bytes;
}

Volumes CollectiveDescriptions::volumes(const CodecChoice& choice,
                                        comm::Bytes collective::Description::*what) const {
  Volumes volumes;
  for (std::size_t kind = 0; kind < kOpKinds; ++kind) {
    const bool of_units = sends(static_cast<OpKind>(kind)) == Sends::weights;
    const std::size_t count = of_units ? unit_memory_.size() : bucket_units_.size();
    std::vector<comm::Bytes>& sent = volumes.by_kind.at(kind);
    for (std::size_t index = 0; index < count; ++index) {
      const auto* const described = find(static_cast<OpKind>(kind), index, choice);
      if (described == nullptr) continue;
      sent.resize(count);
      sent[index] = described->*what;
    }
  }
  return volumes;
}

codec::ExactShape shape_of_bits(std::size_t count, double bits) {
  if (bits >= codec::kWholeWidth) return {};
  const auto width =
      static_cast<unsigned>(std::clamp(bits, 1.0, static_cast<double>(codec::kExactWidths)));
  const double rest = std::max(0.0, bits - width) / codec::kWholeWidth;
  const codec::ExactShape shape{
      .width = width, .escapes = static_cast<std::uint64_t>(rest * static_cast<double>(count))};
  return codec::exact_bytes(count, shape) < codec::exact_bytes(count, {}) ? shape
                                                                          : codec::ExactShape{};
}

std::size_t difference_bytes(const Options& options, const UnitPartition& unit) {
  return round_up(unit.shard * size_of(options.compute), kPackingAlignment);
}

std::size_t staged_copy_bytes(const UnitPartition& unit) {
  if (!unit.secondary_on_host) return 0;
  return round_up(unit.secondary * size_of(unit.secondary_dtype), kPackingAlignment);
}

std::size_t staged_part_bytes(const Options& options, const UnitPartition& unit) {
  if (!unit.secondary_on_host || unit.secondary_dtype == options.compute) return 0;
  const std::size_t count = unit.secondary / unit.secondary_pieces;
  return round_up(count * size_of(unit.secondary_dtype), kPackingAlignment);
}

std::size_t packing_bytes(const std::vector<UnitPartition>& units, const Bucket& bucket,
                          std::size_t shards) {
  if (!is_packed(bucket)) return 0;
  const Dtype dtype = units[unit_of(bucket)].gradients;
  return round_up(shards * bucket.count() * size_of(dtype), kPackingAlignment);
}

std::size_t replica_packing_bytes(const Bucket& bucket, std::size_t shard_groups,
                                  std::size_t part) {
  if (!is_packed(bucket) && bucket.count() == shard_groups * part) return 0;
  return round_up(shard_groups * part * sizeof(float), kPackingAlignment);
}

std::optional<collective::FeedbackOptions> feedback_of(const Options& options) {
  const ErrorFeedbackOptions& asked = options.error_feedback;
  if (asked.hops == FeedbackHops::none || !options.quantized_gradients) return std::nullopt;
  return collective::FeedbackOptions{.beta = static_cast<float>(asked.beta),
                                     .intra = asked.hops != FeedbackHops::inter,
                                     .inter = asked.hops != FeedbackHops::intra,
                                     .storage = asked.dtype == FeedbackStorage::int8
                                                    ? collective::ErrorStorage::int8
                                                    : collective::ErrorStorage::fp32};
}

}  // namespace zeropp::zero
