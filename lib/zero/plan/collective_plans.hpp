// Plans of the collectives that a run asks for: which parts, in which dtype and codec, for what.
// Pure functions of resolved options ("auto" nowhere): the engine makes runners of these, and a
// planner descriptions (collective_descriptions.hpp).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "lib/collective/plan.hpp"
#include "lib/zero/plan/codec_table.hpp"
#include "lib/zero/plan/options.hpp"
#include "lib/zero/plan/partition.hpp"
#include "lib/zero/plan/schedule.hpp"

namespace zeropp::zero {

/// Purpose of a gather: its phase in the trace.
enum class Phase : std::uint8_t { forward, backward, evaluation, update, initial };
inline constexpr std::size_t kPhases = 5;
inline std::size_t index_of(Phase phase) { return static_cast<std::size_t>(phase); }
/// Name of the phase in the trace.
const char* name_of(Phase phase);

/// Phase of an operation of a training step.
Phase training_phase(const Op& op);
/// Phases in which a unit's weights are gathered.
std::vector<Phase> gather_phases(const Options& options, const UnitPartition& unit);

/// Plan of the all-gather of every rank's shard (compute dtype) into the padded unit (compute
/// dtype).
collective::AllGatherPlan weight_gather(const Options& options, const UnitPartition& unit,
                                        const codec::CodecSpec& codec, Phase phase);
/// Plan of the all-gather of one piece of the secondary shards of every rank of the hpZ group into
/// its part of the padded unit; never quantized.
collective::AllGatherPlan secondary_gather(const Options& options, const UnitPartition& unit,
                                           Phase phase);

/// All-gather along the rails of differences, which is the one that runs on these.
inline constexpr const char* kExchange = "direct";
/// Plan of the all-gather of the differences of the ranks' shards (compute dtype), which are added
/// to the copies of these there: along a rail or, at stages 1 and 2, of all ranks.
collective::AllGatherPlan difference_gather(const Options& options, const UnitPartition& unit,
                                            Phase phase);
/// Plan of the all-gather, along a rail, of its ranks' whole shards (compute dtype) into their
/// copies there, in the codec of weights.
collective::AllGatherPlan copy_gather(const Options& options, const UnitPartition& unit,
                                      const codec::CodecSpec& codec, Phase phase);
/// Bytes of a secondary shard that lies on the host, and comes to the device to be brought up to
/// date there: it lies before everything else of the exchange. 0 where it lies on the device.
std::size_t staged_copy_bytes(const UnitPartition& unit);
/// Bytes of the device that a piece of a unit's secondary shard takes before it is converted for
/// its gather, where it comes from the host in another dtype than the weights are computed in.
std::size_t staged_part_bytes(const Options& options, const UnitPartition& unit);
/// Bytes of a shard's differences, which lie before the workspace of their gather.
std::size_t difference_bytes(const Options& options, const UnitPartition& unit);

/// Whether a bucket is packed: one of a single segment is reduced where it lies.
inline bool is_packed(const Bucket& bucket) { return bucket.segments.size() > 1; }
/// Bytes that its packed gradients take, of all ranks' parts; 0 where it is not packed.
std::size_t packing_bytes(const std::vector<UnitPartition>& units, const Bucket& bucket,
                          std::size_t world_size);

/// Error feedback that the options ask for; nothing without it.
std::optional<collective::FeedbackOptions> feedback_of(const Options& options);

/// A bucket's gradients among the ranks that share a copy.
collective::ReduceScatterPlan gradient_reduction(const Options& options,
                                                 const std::vector<UnitPartition>& units,
                                                 const Bucket& bucket, const GradientCodecs& hops);
/// Plan of the all-gather, at stage 0, of every rank's sum of a bucket, in fp32.
collective::AllGatherPlan sum_gather(const Options& options,
                                     const std::vector<UnitPartition>& units, const Bucket& bucket);

/// A bucket's sum over the shard groups. Its algorithms have one step, and the same order of
/// additions in every run.
inline constexpr const char* kReplicaReduce = "1-hop";
inline constexpr const char* kReplicaGather = "direct";
struct ReplicaSum {
  collective::ReduceScatterPlan reduce;
  collective::AllGatherPlan gather;
};
ReplicaSum replica_sum(const Options& options, const Bucket& bucket, const GradientCodecs& hops,
                       std::size_t shard_groups);
/// Codec of the gather of sums, by the codec of the hop across nodes: sums are fp32, and travel
/// without a codec as weights do.
codec::CodecSpec codec_of_sums(const codec::CodecSpec& inter, Dtype compute);
/// Bytes of the image that a bucket is packed in for it, of `part` elements a replica; 0 where it
/// is summed where it lies: one segment, which the replicas divide.
std::size_t replica_packing_bytes(const Bucket& bucket, std::size_t shard_groups, std::size_t part);

}  // namespace zeropp::zero
