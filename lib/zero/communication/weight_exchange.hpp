// The all-gathers along the rails that bring the nodes' copies of the weights up to date: of
// differences to the copies, and of whole weights, planned once per unit, phase and codec. The own
// shard goes through the codec as well, so that all nodes' copies have the same bits, and what
// encoding a difference loses is in the next one. Owns plans only; the engine lends memory, enough
// for either. Source: SDP4Bit (arXiv 2410.15526), section 3.1, there without sharded weights.
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
  void finish(std::size_t unit, Phase phase, StreamHandle stream);

 private:
  /// A copy that lies on the host, and where it is brought up to date.
  struct Staged {
    View on_device;
    View on_host;
  };
  /// Plans of one unit differ in their label only; null where there is none.
  using ByPhase = std::array<std::unique_ptr<collective::AllGather>, kPhases>;
  [[nodiscard]] collective::AllGather& gather(std::size_t unit, Phase phase) const;

  const Options& options_;
  const std::vector<UnitPartition>& units_;
  Device device_;
  std::size_t node_ = 0;        ///< number of the own node: of the own piece of a secondary shard
  int rail_ = 0;                ///< number of the own rail
  std::vector<Staged> staged_;  ///< by unit
  std::vector<ByPhase> difference_;
  std::vector<std::vector<ByPhase>> whole_;  ///< by unit and codec
  CodecChoice choice_;
};

}  // namespace zeropp::zero
