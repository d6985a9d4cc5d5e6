#include "lib/zero/plan/collective_plans.hpp"

#include <array>
#include <string>

#include "lib/base/checked.hpp"

namespace zeropp::zero {

namespace {

constexpr std::array<const char*, kPhases> kPhaseNames{"forward", "backward", "evaluation",
                                                       "update", "initial"};
/// Packed values begin where a buffer may.
constexpr std::size_t kPackingAlignment = 256;

/// Parts of a bucket's gradients, as they lie: packed, or in the buffer of its one unit.
collective::Parts parts_of(const std::vector<UnitPartition>& units, const Bucket& bucket) {
  const std::size_t count = bucket.count();
  return {count, is_packed(bucket) ? count : units[bucket.segments.front().unit].shard};
}

}  // namespace

const char* name_of(Phase phase) { return kPhaseNames.at(index_of(phase)); }

Phase training_phase(const Op& op) {
  if (op.kind == OpKind::refresh) return op.initial ? Phase::initial : Phase::update;
  return op.backward_phase ? Phase::backward : Phase::forward;
}

std::vector<Phase> gather_phases(const Options& options, const UnitPartition& unit) {
  return stage_preset(options.stage).shard_parameters && !unit.persistent
             ? std::vector{Phase::forward, Phase::backward, Phase::evaluation}
             : std::vector{Phase::update, Phase::initial};
}

collective::AllGatherPlan weight_gather(const Options& options, const UnitPartition& unit,
                                        const codec::CodecSpec& codec, Phase phase) {
  return {.parts = collective::Parts::dense(unit.shard),
          .memory = options.compute,
          .codec = codec,
          .depth = options.pipeline_depth,
          .label = {"weights", name_of(phase)}};
}

collective::AllGatherPlan secondary_gather(const Options& options, const UnitPartition& unit,
                                           Phase phase) {
  return {.parts = collective::Parts::dense(unit.secondary / unit.secondary_pieces),
          .memory = options.compute,
          .label = {"weights_secondary", name_of(phase)}};
}

collective::AllGatherPlan difference_gather(const Options& options, const UnitPartition& unit,
                                            Phase phase) {
  return {.parts = collective::Parts::dense(unit.shard),
          .memory = options.compute,
          .codec = options.weight_differences.codec,
          .depth = options.pipeline_depth,
          .label = {"weights_difference", name_of(phase)},
          .result = unit.secondary_dtype,
          .adds = true};
}

collective::AllGatherPlan copy_gather(const Options& options, const UnitPartition& unit,
                                      const codec::CodecSpec& codec, Phase phase) {
  return {.parts = collective::Parts::dense(unit.shard),
          .memory = options.compute,
          .codec = codec,
          .depth = options.pipeline_depth,
          .label = {"weights_copy", name_of(phase)},
          .result = unit.secondary_dtype};
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
                          std::size_t world_size) {
  if (!is_packed(bucket)) return 0;
  const Dtype dtype = units[bucket.segments.front().unit].gradients;
  return round_up(world_size * bucket.count() * size_of(dtype), kPackingAlignment);
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

collective::ReduceScatterPlan gradient_reduction(const Options& options,
                                                 const std::vector<UnitPartition>& units,
                                                 const Bucket& bucket, const GradientCodecs& hops) {
  collective::ReduceScatterPlan plan{.parts = parts_of(units, bucket),
                                     .memory = units[bucket.segments.front().unit].gradients,
                                     .plain = options.compute,
                                     .codec_first = hops.intra,
                                     .codec_second = hops.inter,
                                     .depth = options.pipeline_depth,
                                     .label = {"gradients", "backward"}};
  if (const auto feedback = feedback_of(options)) plan.feedback = {.options = *feedback};
  return plan;
}

collective::AllGatherPlan sum_gather(const Options& options,
                                     const std::vector<UnitPartition>& units,
                                     const Bucket& bucket) {
  return {.parts = parts_of(units, bucket),
          .depth = options.pipeline_depth,
          .label = {"gradients", "backward"}};
}

ReplicaSum replica_sum(const Options& options, const Bucket& bucket, const GradientCodecs& hops,
                       std::size_t shard_groups) {
  const auto parts = collective::Parts::dense(replica_part(bucket, shard_groups, options.compute));
  const collective::Label label{"gradients_across", "backward"};
  ReplicaSum sum{.reduce = {.parts = parts,
                            .plain = options.compute,
                            .codec_first = hops.inter,
                            .depth = options.pipeline_depth,
                            .label = label,
                            .only_hop = 2},
                 .gather = {.parts = parts,
                            .codec = codec_of_sums(hops.inter, options.compute),
                            .depth = options.pipeline_depth,
                            .label = label}};
  const auto feedback = feedback_of(options);
  if (feedback && feedback->inter && shard_groups > 1) {
    sum.reduce.feedback = {.options = *feedback};
    sum.gather.feedback = sum.reduce.feedback;
  }
  return sum;
}

codec::CodecSpec codec_of_sums(const codec::CodecSpec& inter, Dtype compute) {
  if (inter != codec::CodecSpec{} || compute == Dtype::fp32) return inter;
  return {std::string(name_of(compute)), 0, {}};
}

std::size_t replica_packing_bytes(const Bucket& bucket, std::size_t shard_groups,
                                  std::size_t part) {
  if (!is_packed(bucket) && bucket.count() == shard_groups * part) return 0;
  return round_up(shard_groups * part * sizeof(float), kPackingAlignment);
}

}  // namespace zeropp::zero
