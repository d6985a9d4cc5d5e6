// The optimizer of a rank: the part of master weights and states that the device steps, the part
// that the host steps (offload), and what weights are gathered from: the master itself or, with
// offload, shards in the compute dtype that follow it, on the device, on the host or in a file.
// Owns the optimizer's arrays, files and staging; the gradients and the weights are RankMemory's.
// Throws Error(io) where files are concerned.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "lib/base/async_file.hpp"
#include "lib/device/stream.hpp"
#include "lib/zero/engine/engine_context.hpp"
#include "lib/zero/engine/rank_memory.hpp"
#include "lib/zero/engine/weight_images.hpp"
#include "lib/zero/optimizer/file_weights.hpp"
#include "lib/zero/optimizer/offloaded_optimizer.hpp"
#include "lib/zero/optimizer/optimizer_shard.hpp"

namespace zeropp::zero {

class RankOptimizer {
 public:
  /// Draws the initial master weights, and makes the others from them. References outlive this.
  /// Throws Error(environment) when there is no memory.
  RankOptimizer(const EngineContext& context, const optim::Options& options,
                const RankMemory& memory);

  /// Gradients are final where `compute` is now. Before the updates of a step, of all units in
  /// order.
  void begin_step(const Stream& compute);
  /// Step `t` of the operation's unit, on its stream, with gradient_scale * gradient, clipped by
  /// the factor `clip`: master, states, the weights that follow, and the image of the new weights.
  /// The offloaded part is done when this returns, but new weights are in their file only after
  /// wait_for_files().
  void update(const Op& op, std::uint64_t t, float gradient_scale, double clip);
  /// The latest update of a unit.
  [[nodiscard]] const Event& updated(std::size_t unit) const { return updated_[unit]; }
  /// All weights of a unit in the compute dtype from its master, on the compute stream: where no
  /// step has made them.
  void make_weights(std::size_t unit);
  /// Returns when what goes to files is there.
  void wait_for_files();

  /// Begins to read the weights that `schedule` gathers from files, where no update in it makes
  /// them.
  void prefetch_weights(const Schedule& schedule);
  /// The own shard that weights are gathered from, where it lies: in the compute dtype, or the fp32
  /// master, which is rounded to it on the way.
  [[nodiscard]] ConstView weight_shard(std::size_t unit) const;
  /// weight_shard() on the device, for a gather or a refresh on its stream: a shard on the host or
  /// in a file comes to the begin of the operation's workspace first.
  [[nodiscard]] ConstView shard_to_gather(const Op& op);
  /// The part of the operation's workspace after the shard that shard_to_gather() has put there.
  [[nodiscard]] std::span<std::byte> workspace_behind_shard(const Op& op) const;

  /// Whether the unit's update writes what its refresh sends, with the codec in force, into the
  /// workspace that the update schedule gives both.
  [[nodiscard]] bool writes_refresh(std::size_t unit) const {
    return context_.units()[unit].persistent && image_updates_.image(unit).has_value();
  }
  /// Images that gathers of weights start from; null: none are kept.
  [[nodiscard]] WeightImages* images() { return images_ ? &*images_ : nullptr; }
  [[nodiscard]] const WeightImages* images() const { return images_ ? &*images_ : nullptr; }

  /// The part that the device steps.
  [[nodiscard]] const OptimizerShard& on_device() const { return shard_; }
  /// The part that the host steps; null: none.
  [[nodiscard]] const OffloadedOptimizer* offloaded() const {
    return offloaded_ ? &*offloaded_ : nullptr;
  }
  /// Weights that are gathered from a file; null: none.
  [[nodiscard]] const FileWeights* file_weights() const {
    return file_weights_ ? &*file_weights_ : nullptr;
  }
  /// All files that this rank offloads to.
  [[nodiscard]] std::vector<const AsyncFile*> files() const;
  /// Seconds that the host has been busy with updates, or waited for them, so far.
  [[nodiscard]] double host_seconds() const { return host_seconds_; }

 private:
  [[nodiscard]] std::vector<UnitArrays> device_arrays() const;
  /// Prepares updates that write images of weights themselves: kept ones, and those that refreshes
  /// send.
  void prepare_images();
  void cast_to_compute(std::size_t unit, const Stream& on) const;

  const EngineContext& context_;
  const RankMemory& memory_;
  OptimizerShard shard_;
  std::optional<FileWeights> file_weights_;
  std::optional<OffloadedOptimizer> offloaded_;
  std::optional<WeightImages> images_;
  ImageUpdates image_updates_;
  std::vector<Event> updated_;  ///< by unit
  double host_seconds_ = 0;
};

}  // namespace zeropp::zero
