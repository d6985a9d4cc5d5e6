// The collectives of weights, planned once per unit and codec. Whole weights go over all ranks
// (qwZ's codecs or none), and inside the hpZ group (never quantized). The copies that weight
// differences are added to are brought up to date by differences or by whole weights: at stage 3
// along the rails, into the secondary shards of hpZ; at stages 1 and 2 on all ranks, into the
// resident weights. A rank decodes its own shard from its own wire image, so that all copies have
// the same bits; what encoding a difference loses is part of the next difference. Owns plans only;
// the engine lends memory, enough for any of a unit's codecs. Sources: ZeRO++ (arXiv 2306.10209),
// sections 3.1 and 3.2; SDP4Bit (arXiv 2410.15526), section 3.1, which does not shard the weights.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "lib/collective/collective.hpp"
#include "lib/collective/exact_gather.hpp"
#include "lib/device/device.hpp"
#include "lib/zero/plan/codec_table.hpp"
#include "lib/zero/plan/collectives.hpp"
#include "lib/zero/plan/options.hpp"
#include "lib/zero/plan/partition.hpp"

namespace zeropp::zero {

class WeightCollectives {
 public:
  /// Gathers of the pieces of a unit; one of all other things.
  using Gathers = std::vector<std::unique_ptr<collective::AllGather>>;

  /// `options` are resolved (no "auto"); `groups` and `recorder` outlive this.
  WeightCollectives(const Options& options, const CodecTable& codecs,
                    const std::vector<UnitPartition>& units, comm::Groups& groups,
                    trace::Recorder& recorder, const Device& device);

  /// Puts codecs, and whether weights go whole, into force.
  void use(const CodecChoice& choice) { choice_ = choice; }

  /// All-gather of the shards (compute dtype) of every rank into the padded unit (compute dtype),
  /// in the codec in force.
  [[nodiscard]] collective::AllGather& whole(std::size_t unit) const {
    return whole(unit, choice_.weights[unit]);
  }
  /// The one that takes codecs.weights(unit)[codec].
  [[nodiscard]] collective::AllGather& whole(std::size_t unit, std::size_t codec) const {
    return *made_.at({Transfer::weights, unit, codec}).front();
  }
  /// All-gathers of the secondary shards of every rank of the group into the padded unit: gather k
  /// is of piece k, into part k of as many of the unit.
  [[nodiscard]] const Gathers& secondary(std::size_t unit) const {
    return made_.at({Transfer::secondary, unit});
  }

  /// Counts, into `escapes` (memory of the device), how the own weights of a unit differ from
  /// `copy`, with exact differences; `shard` and `copy` as of start_differences(). `workspace`: as
  /// much as these have.
  void count_differences(std::size_t unit, ConstView shard, ConstView copy,
                         std::span<std::byte> workspace, codec::Escapes* escapes,
                         StreamHandle stream) const;
  /// Sets the shape of the next exact differences of a unit, on which all ranks have agreed.
  void set_shape(std::size_t unit, const codec::ExactShape& shape) { exact_[unit].shape = shape; }
  /// Starts to bring `copy`, the secondary shard of a unit, to the weights of which `shard` is the
  /// own shard (compute dtype or fp32), along the rail. A copy on the host comes to the workspace
  /// first, and goes back when it is up to date: kernels that reach over the GPU's link to the host
  /// would be slower than its copy engines, and take multiprocessors. One run of a unit in flight.
  void start_copy(std::size_t unit, ConstView shard, View copy, collective::Run run);
  /// Enqueues on `stream` what is left of what start_copy() began; `stream` may be another than
  /// start_copy()'s, and its later work finds the copy up to date. Where the host moves the bytes,
  /// waits for them.
  void finish_copy(std::size_t unit, StreamHandle stream);
  /// Starts to add to `copy`, of which the shards of the ranks of the collective are the pieces,
  /// the differences of their weights from it. `shard`: the own weights (compute dtype or fp32).
  void start_differences(std::size_t unit, ConstView shard, View copy, collective::Run run);
  /// Enqueues on `stream` what is left of what start_differences() began, as finish_copy() does.
  void finish_differences(std::size_t unit, StreamHandle stream);

 private:
  /// A copy that lies on the host, and where it is brought up to date.
  struct Staged {
    View on_device;
    View on_host;
  };
  /// Exact differences of a unit; no gather where they lose something.
  struct Exact {
    std::unique_ptr<collective::ExactGather> gather;
    codec::ExactShape shape;
  };
  /// The collective that brings whole weights to a unit's copy along the rail.
  [[nodiscard]] collective::AllGather& to_copy(std::size_t unit) const {
    return *made_.at({Transfer::copies, unit, choice_.weights[unit]}).front();
  }
  /// The collective of a unit's differences that lose something.
  [[nodiscard]] collective::AllGather& of_differences(std::size_t unit) const {
    return *made_.at({Transfer::differences, unit}).front();
  }

  const Options& options_;
  const std::vector<UnitPartition>& units_;
  Device device_;
  std::size_t own_ = 0;         ///< number of the own shard's piece of a copy
  int rail_ = 0;                ///< number of the own rail
  std::vector<Staged> staged_;  ///< by unit
  CollectiveTable<Gathers> made_;
  std::vector<Exact> exact_;  ///< by unit
  CodecChoice choice_;
};

}  // namespace zeropp::zero
