// The collectives of weights and gradients: the list of them, the plan of each one, the operation
// of a schedule that runs it, its traffic and its workspace. One walk over them serves the code
// that describes them, that makes their runners, and that measures their losses; a planner costs
// the collective of an operation. Pure functions of resolved options ("auto" nowhere), and values.
// Runners have the numbers of the descriptions, since both are made of one plan.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "kernels/codec/exact.hpp"
#include "lib/collective/description.hpp"
#include "lib/collective/plan.hpp"
#include "lib/comm/shape.hpp"
#include "lib/zero/plan/codec_table.hpp"
#include "lib/zero/plan/options.hpp"
#include "lib/zero/plan/partition.hpp"
#include "lib/zero/plan/schedule.hpp"
#include "lib/zero/plan/volume.hpp"

namespace zeropp::zero {

/// Values that a collective moves.
enum class Transfer : std::uint8_t {
  weights,         ///< every rank's shard (compute dtype) into the whole unit (compute dtype)
  secondary,       ///< pieces of the secondary shards into the whole unit; never quantized
  differences,     ///< of the shards (compute dtype), added to their copies: along a rail or, at
                   ///< stages 1 and 2, on all ranks
  copies,          ///< along a rail: whole shards (compute dtype) into their copies
  gradients,       ///< a bucket's gradients into the sum of the own part
  sums,            ///< a bucket's sums, fp32, into the local gradients of all ranks (stage 0)
  replica_reduce,  ///< a bucket's sum over the shard groups: of the own part,
  replica_gather,  ///< and of all parts, fp32
};
inline constexpr std::size_t kTransfers = static_cast<std::size_t>(Transfer::replica_gather) + 1;

/// Ranks that a collective runs on.
enum class RankGroup : std::uint8_t {
  shards,     ///< that share a copy of everything
  secondary,  ///< of hpZ
  rail,       ///< equal local ranks of all nodes
  replicas    ///< with the same shard in all shard groups
};

struct CollectiveKey {
  Transfer transfer;
  std::size_t index;      ///< unit, or bucket
  std::size_t codec = 0;  ///< in CodecTable::weights() or gradients(); 0 where there is no choice
};

struct Collective {
  CollectiveKey key;
  std::string_view algorithm;
  RankGroup among;
  std::variant<collective::AllGatherPlan, collective::ReduceScatterPlan,
               collective::ExactGatherPlan>
      plan;
  std::size_t runs = 1;    ///< in flight together, of one piece each
  std::size_t before = 0;  ///< bytes of its operation's workspace before that of the runs

  [[nodiscard]] const collective::AllGatherPlan& gather() const {
    return std::get<collective::AllGatherPlan>(plan);
  }
  /// Null for all but exact differences.
  [[nodiscard]] const collective::ExactGatherPlan* exact() const {
    return std::get_if<collective::ExactGatherPlan>(&plan);
  }
  [[nodiscard]] const collective::ReduceScatterPlan& reduction() const {
    return std::get<collective::ReduceScatterPlan>(plan);
  }
};

/// The unit whose codecs a bucket takes: its units are of one group of the table.
inline std::size_t unit_of(const Bucket& bucket) { return bucket.segments.front().unit; }

/// The collective of weights with this key.
Collective weight_collective(const Options& options, const CodecTable& codecs,
                             const UnitPartition& unit, const CollectiveKey& key);
/// The collective of gradients with this key; of `shards` ranks that share a copy, in
/// `shard_groups` groups.
Collective gradient_collective(const Options& options, const CodecTable& codecs,
                               const std::vector<UnitPartition>& units, const Bucket& bucket,
                               std::size_t shards, std::size_t shard_groups,
                               const CollectiveKey& key);

using VisitCollective = std::function<void(const Collective&)>;
/// Visits all collectives of weights that a run may need: those of a unit together, and of what it
/// moves one for each codec, in the order of the table.
void for_each_weight_collective(const Options& options, const CodecTable& codecs,
                                const std::vector<UnitPartition>& units,
                                const VisitCollective& visit);
/// Visits all collectives of gradients, bucket by bucket; arguments as of gradient_collective().
void for_each_gradient_collective(const Options& options, const CodecTable& codecs,
                                  const std::vector<UnitPartition>& units,
                                  const std::vector<Bucket>& buckets, std::size_t shards,
                                  std::size_t shard_groups, const VisitCollective& visit);

/// Key of the collective that operations of `kind` run on unit or bucket `index`, with the codecs
/// of `choice`; `unit`: the unit, or unit_of() the bucket. Nothing for kinds that run none.
std::optional<CollectiveKey> key_of(const Options& options, OpKind kind, std::size_t index,
                                    std::size_t unit, const CodecChoice& choice);

/// Something of each collective, by its key.
template <class Value>
class CollectiveTable {
 public:
  /// Values of the codecs of one thing are added in their order.
  void add(const CollectiveKey& key, Value value) {
    auto& indices = values_.at(static_cast<std::size_t>(key.transfer));
    if (indices.size() <= key.index) indices.resize(key.index + 1);
    indices[key.index].push_back(std::move(value));
  }
  /// Null where there is none.
  [[nodiscard]] const Value* find(const CollectiveKey& key) const {
    const auto& indices = values_.at(static_cast<std::size_t>(key.transfer));
    if (key.index >= indices.size() || key.codec >= indices[key.index].size()) return nullptr;
    return &indices[key.index][key.codec];
  }
  /// Throws std::out_of_range where there is none.
  [[nodiscard]] const Value& at(const CollectiveKey& key) const {
    return values_.at(static_cast<std::size_t>(key.transfer)).at(key.index).at(key.codec);
  }

 private:
  /// By transfer, index and codec.
  std::array<std::vector<std::vector<Value>>, kTransfers> values_;
};

/// Traffic and workspaces of the collectives of a rank, in closed form.
class CollectiveDescriptions {
 public:
  /// Adds those of weights. `job`: as the rank sees it where weights are gathered.
  void describe_weights(const Options& options, const CodecTable& codecs,
                        const std::vector<UnitPartition>& units, const comm::JobShape& job);
  /// Adds those of gradients. `job`: where gradients are reduced.
  void describe_gradients(const Options& options, const CodecTable& codecs,
                          const std::vector<UnitPartition>& units,
                          const std::vector<Bucket>& buckets, const comm::JobShape& job);

  /// Description of the collective that operations of `kind` run, with the codecs that `choice`
  /// puts into force; null where there is none.
  [[nodiscard]] const collective::Description* find(OpKind kind, std::size_t index,
                                                    const CodecChoice& choice) const;
  [[nodiscard]] const collective::Description& at(const CollectiveKey& key) const {
    return table_.at(key);
  }
  /// Bytes or messages (`what`) of all of them, with the codecs that `choice` puts into force.
  [[nodiscard]] Volumes volumes(const CodecChoice& choice,
                                comm::Bytes collective::Description::*what) const;
  /// Bytes that this rank sends in one run of the collective of a unit's exact differences, in
  /// images of `shape`.
  [[nodiscard]] comm::Bytes exact_bytes(const UnitPartition& unit,
                                        const codec::ExactShape& shape) const;
  /// Workspaces that are enough for any of the codecs, by unit and by bucket.
  [[nodiscard]] const std::vector<UnitMemory>& unit_memory() const { return unit_memory_; }
  [[nodiscard]] const std::vector<BucketMemory>& bucket_memory() const { return bucket_memory_; }

 private:
  Options options_;
  comm::JobShape job_;  ///< where weights are gathered
  CollectiveTable<collective::Description> table_;
  std::vector<UnitMemory> unit_memory_;
  std::vector<BucketMemory> bucket_memory_;
  std::vector<std::size_t> bucket_units_;  ///< unit_of() each bucket
};

// Data that operations put into their workspace before the workspace of their collective.

/// Bytes of a secondary shard that lies on the host, and comes to the device to be brought up to
/// date. 0 where it lies on the device.
std::size_t staged_copy_bytes(const UnitPartition& unit);
/// Bytes of a piece of a unit's secondary shard before it is converted for its gather, where it
/// comes from the host in another dtype than the weights are computed in.
std::size_t staged_part_bytes(const Options& options, const UnitPartition& unit);
/// The shape of an image of `count` exact differences in about so many bits each: the widest codes
/// that these have room for, and escapes for the rest.
codec::ExactShape shape_of_bits(std::size_t count, double bits);
/// Bytes of a shard's differences.
std::size_t difference_bytes(const Options& options, const UnitPartition& unit);
/// Whether a bucket is packed: one of a single segment is reduced where it lies.
inline bool is_packed(const Bucket& bucket) { return bucket.segments.size() > 1; }
/// Bytes of a bucket's packed gradients, of all `shards` ranks' parts; 0 where it is not packed.
std::size_t packing_bytes(const std::vector<UnitPartition>& units, const Bucket& bucket,
                          std::size_t shards);
/// Bytes of the image that a bucket is packed in for its sum over the shard groups, of `part`
/// elements per replica; 0 where it is summed where it lies: one segment, which the replicas
/// divide.
std::size_t replica_packing_bytes(const Bucket& bucket, std::size_t shard_groups, std::size_t part);

/// Error feedback that the options ask for; nothing without it.
std::optional<collective::FeedbackOptions> feedback_of(const Options& options);

}  // namespace zeropp::zero
