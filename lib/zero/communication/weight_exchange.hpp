// The all-gathers that bring copies of the weights up to date with differences, planned once per
// unit, phase and codec. At stage 3 differences travel along the rails to the secondary shards of
// hpZ, and so do whole weights. At stages 1 and 2 differences travel to every rank's resident
// weights; WeightGather brings whole weights there. A rank decodes its own shard from its own wire
// image, so that all copies have the same bits; what encoding a difference loses is part of the
// next difference. Owns plans only; the engine lends memory, enough for differences and for whole
// weights. Source: SDP4Bit (arXiv 2410.15526), section 3.1, which
// does not shard the weights.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "lib/collective/collective.hpp"
#include "lib/device/device.hpp"
#include "lib/zero/plan/codec_table.hpp"
#include "lib/zero/plan/collective_plans.hpp"
#include "lib/zero/plan/options.hpp"
#include "lib/zero/plan/partition.hpp"

namespace zeropp::zero {

class WeightExchange {
 public:
  /// `options` are resolved; `groups` and `recorder` outlive this. Without weight differences there
  /// is nothing to start.
  WeightExchange(const Options& options, const CodecTable& codecs,
                 const std::vector<UnitPartition>& units, comm::Groups& groups,
                 trace::Recorder& recorder, const Device& device);

  /// Puts codecs, and whether weights go whole, into force.
  void use(const CodecChoice& choice) { choice_ = choice; }

  /// Starts to bring `copy`, the secondary shard of a unit, to the weights of which `shard` is the
  /// own shard (compute dtype or fp32). `key`: of the draws, the same on every rank. A copy on the
  /// host comes to the workspace first, and goes back when it is up to date: kernels that reach
  /// over the GPU's link to the host would be slower than its copy engines, and take
  /// multiprocessors. One run of a unit in flight.
  void start(std::size_t unit, Phase phase, ConstView shard, View copy,
             std::span<std::byte> workspace, StreamHandle stream, std::uint64_t key);
  /// Enqueues on `stream` what is left of the exchange that start() began; `stream` may be another
  /// than start()'s, and its later work finds the copy up to date. Where the host moves the bytes,
  /// waits for them.
  void finish(std::size_t unit, Phase phase, StreamHandle stream);
  /// Starts to bring `resident`, the whole weights of a unit (padded, compute dtype), to those of
  /// which `shard` is the own shard (compute dtype or fp32), by differences, at stages 1 and 2.
  /// `key`: as that of start(). Returns the collective that is started, for the caller to finish.
  collective::AllGather& start_refresh(std::size_t unit, Phase phase, ConstView shard,
                                       View resident, std::span<std::byte> workspace,
                                       StreamHandle stream, std::uint64_t key);

 private:
  /// A copy that lies on the host, and where it is brought up to date.
  struct Staged {
    View on_device;
    View on_host;
  };
  /// Plans of one unit differ in their label only; null where there is none.
  using ByPhase = std::array<std::unique_ptr<collective::AllGather>, kPhases>;
  [[nodiscard]] collective::AllGather& gather(std::size_t unit, Phase phase) const;
  /// Starts to add the differences of all ranks to `copy`, of which piece `own_` is of the own
  /// shard.
  void start_differences(std::size_t unit, Phase phase, ConstView shard, View copy,
                         std::span<std::byte> workspace, StreamHandle stream, std::uint64_t draws);

  const Options& options_;
  const std::vector<UnitPartition>& units_;
  Device device_;
  std::size_t own_ = 0;         ///< number of the own shard's piece of a copy
  int rail_ = 0;                ///< number of the own rail
  std::vector<Staged> staged_;  ///< by unit
  std::vector<ByPhase> difference_;
  std::vector<std::vector<ByPhase>> whole_;  ///< by unit and codec
  CodecChoice choice_;
};

}  // namespace zeropp::zero
