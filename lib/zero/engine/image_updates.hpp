// Updates that write the wire image of the weights that they make, in the codecs that the optimizer
// has a kernel for: into a kept image, or into what a refresh sends. Owns numbers only; the tables
// of the updates are the OptimizerShard's, the memory of the images is others'.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "lib/zero/engine/engine_context.hpp"
#include "lib/zero/optimizer/optimizer_shard.hpp"

namespace zeropp::zero {

class ImageUpdates {
 public:
  /// `context` outlives this.
  explicit ImageUpdates(const EngineContext& context);

  using Chunks = std::vector<collective::ImageChunk> (collective::AllGather::*)() const;
  /// Prepares updates of a unit of `shard` that write images to `memory`, where `chunks` of the
  /// unit's all-gather says, in each of the unit's codecs that the shard has a kernel for.
  /// `arrays`: the unit's, of the shard's constructor. Throws Error(environment) when there is no
  /// memory.
  void prepare(OptimizerShard& shard, std::size_t unit, const UnitArrays& arrays, std::byte* memory,
               Chunks chunks);
  /// The image, by its number in the shard, that an update of the unit writes in the codec in
  /// force; empty: none.
  [[nodiscard]] std::optional<std::size_t> image(std::size_t unit) const {
    return images_[unit][context_.plan.choice.weights[unit]];
  }

 private:
  const EngineContext& context_;
  std::vector<std::vector<std::optional<std::size_t>>> images_;  ///< by unit and codec
};

}  // namespace zeropp::zero
