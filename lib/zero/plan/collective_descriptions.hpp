// Descriptions, in closed form, of what a rank's collectives of weights and gradients move and
// take, one for each unit or bucket and each of its codecs. Which codec is in force is the caller's
// choice (CodecTable). Values; the engine's runners have the same numbers, since both are described
// alike.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "lib/collective/description.hpp"
#include "lib/comm/shape.hpp"
#include "lib/zero/plan/codec_table.hpp"
#include "lib/zero/plan/options.hpp"
#include "lib/zero/plan/partition.hpp"
#include "lib/zero/plan/schedule.hpp"
#include "lib/zero/plan/volume.hpp"

namespace zeropp::zero {

/// The gathers of a unit differ by phase in nothing but their label, which here is that of the
/// first phase.
struct WeightDescriptions {
  WeightDescriptions(const Options& options, const CodecTable& codecs,
                     const std::vector<UnitPartition>& units, const comm::JobShape& job);

  /// Adds the bytes of the gathers, with the codecs that `choice`, by unit, puts into force.
  void add_volumes(const CodecChoice& choice, Volumes& volumes) const;
  /// Adds the messages of the gathers, with the codecs that `choice`, by unit, puts into force.
  void add_messages(const CodecChoice& choice, Volumes& messages) const;
  /// Description of the collective of a unit that operations of `kind` run; null where the unit has
  /// none, and for kinds that are no gathers of weights.
  [[nodiscard]] const collective::Description* find(OpKind kind, std::size_t unit,
                                                    const CodecChoice& choice) const;
  /// Workspaces that are enough for any of a unit's codecs.
  void add_memory(std::vector<UnitMemory>& memory) const;

  std::vector<std::vector<collective::Description>> global;  ///< by unit and codec
  std::vector<std::optional<collective::Description>>
      secondary;  ///< by unit, of all its pieces; with hpZ
  /// By unit, with weight differences: the gather of differences and, where they go along the
  /// rails, with each codec that of whole weights into the copies. Without weight differences
  /// both are empty.
  std::vector<std::optional<collective::Description>> difference;
  std::vector<std::vector<collective::Description>> copy;

  /// Description of how a unit's copies are brought up to date.
  [[nodiscard]] const collective::Description& exchange(std::size_t unit,
                                                        const CodecChoice& choice) const {
    return choice.whole_weights ? copy[unit][choice.weights[unit]] : *difference[unit];
  }
  /// Description of how a unit's updated weights become whole on every rank.
  [[nodiscard]] const collective::Description& refresh(std::size_t unit,
                                                       const CodecChoice& choice) const {
    const bool whole = choice.whole_weights || !difference[unit];
    return whole ? global[unit][choice.weights[unit]] : *difference[unit];
  }
};

struct GradientDescriptions {
  GradientDescriptions(const Options& options, const CodecTable& codecs,
                       const std::vector<UnitPartition>& units, std::vector<Bucket> buckets,
                       const comm::JobShape& job);

  /// The two collectives of one bucket's sum over the shard groups.
  struct ReplicaPair {
    collective::Description reduce;
    collective::Description gather;
  };

  /// Adds the bytes of the reductions, with the codecs that `choice`, by unit, puts into force.
  void add_volumes(const std::vector<std::size_t>& choice, Volumes& volumes) const;
  /// Adds the messages of the reductions, with the codecs that `choice`, by unit, puts into force.
  void add_messages(const std::vector<std::size_t>& choice, Volumes& messages) const;
  /// Description of the collective of a bucket that operations of `kind` run; null where the run
  /// has none, and for kinds that are no collectives of gradients.
  [[nodiscard]] const collective::Description* find(OpKind kind, std::size_t bucket,
                                                    const std::vector<std::size_t>& choice) const;
  /// The number of a bucket's codecs: its units are of one group of the table.
  [[nodiscard]] std::size_t chosen(const std::vector<std::size_t>& choice,
                                   std::size_t bucket) const {
    return choice[buckets[bucket].segments.front().unit];
  }

  std::vector<Bucket> buckets;
  std::vector<std::vector<collective::Description>> reduce;  ///< by bucket and codecs
  std::vector<collective::Description> gather_sum;           ///< by bucket; stage 0 only
  std::vector<std::vector<ReplicaPair>>
      over_replicas;                 ///< by bucket and codecs; of several shard groups
  std::vector<BucketMemory> memory;  ///< by bucket, enough for any of its codecs
};

}  // namespace zeropp::zero
