// Kept wire images of the own shards of weights (Options::keep_weight_images): of each unit, what
// its all-gathers send of this rank, made once for all gathers of a version of the weights: by the
// update itself, where the optimizer has a kernel that encodes in that codec, else by encoding the
// updated shard. An image is of one version and one codec; one that is not the asked one is made
// again. Owns its memory, which is the device's.
//
// Order on streams: gathers read images on the stream that they start on, which is the same for all
// of them, and an update writes one where it could overwrite the shard itself. So an image needs no
// event beyond those that shards have.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "lib/device/buffer.hpp"
#include "lib/zero/engine/engine_context.hpp"
#include "lib/zero/optimizer/optimizer_shard.hpp"

namespace zeropp::zero {

class WeightImages {
 public:
  /// Takes memory for the units that have images: weight_image_bytes(). `context` outlives this.
  /// Throws Error(environment) when there is no memory.
  explicit WeightImages(const EngineContext& context);

  /// Memory of the unit's image, which an update may write; null where the unit has none.
  [[nodiscard]] std::byte* memory(std::size_t unit) { return kept_[unit].memory.data(); }
  /// Says that the update has written the unit's image, of weights of `version`. Counted.
  void set_written(std::size_t unit, std::uint64_t version);

  /// Whether gathers of the unit start from an image, with its codec in force.
  [[nodiscard]] bool has(std::size_t unit) const;
  /// Makes the unit's image of weights of `version` from `shard`, on `on`: the own shard (fp32), as
  /// the unit's all-gather sends it. Nothing where the unit has none. Counted.
  void encode(std::size_t unit, ConstView shard, std::uint64_t version, StreamHandle on);
  /// The unit's image of weights of `version`, for a gather that starts on `on`; made there first
  /// where what is kept is another.
  [[nodiscard]] std::span<const std::byte> image(std::size_t unit, ConstView shard,
                                                 std::uint64_t version, StreamHandle on);
  /// Drops the unit's image: its weights are no longer those of the version that it has.
  void forget(std::size_t unit) { kept_[unit].version = kNone; }
  [[nodiscard]] std::size_t bytes() const;

 private:
  void set_kept(std::size_t unit, std::uint64_t version);

  static constexpr std::uint64_t kNone = 0;  ///< versions begin at 1
  struct Kept {
    Buffer memory;
    std::uint64_t version = kNone;
    std::size_t codec = 0;  ///< index among the unit's codecs
  };
  [[nodiscard]] std::size_t codec_of(std::size_t unit) const {
    return context_.plan.choice.weights[unit];
  }

  const EngineContext& context_;
  std::vector<Kept> kept_;  ///< by unit
};

/// Updates that write the wire image of the weights that they make, in the codecs that the
/// optimizer has a kernel for: into a kept image, or into what a refresh sends. Owns numbers only;
/// the tables of the updates are the OptimizerShard's, the memory of the images is others'.
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
