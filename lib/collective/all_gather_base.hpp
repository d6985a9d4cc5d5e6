// Base of every all-gather algorithm: the chunks of its plan and where their images lie, checks of
// the memory it is given, accounting. An algorithm fills in begin() and complete().
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "kernels/codec/codec.hpp"
#include "lib/collective/chunks.hpp"
#include "lib/collective/collective.hpp"
#include "lib/collective/hop_feedback.hpp"
#include "lib/collective/meter.hpp"

namespace zeropp::collective {

/// Chunks of an all-gather's plan, and where the wire images of each lie in the workspace, one slot
/// a rank, where it has images: a closed form that runners and descriptions share.
struct GatherLayout {
  /// A chunk and its images: slot s begins at s * image_bytes.
  struct Piece {
    Chunk chunk;
    std::size_t image_bytes;
    std::size_t offset;  ///< of slot 0
    std::size_t packed;  ///< begin of the own image in a packed image
  };

  /// `codec` is plan.codec, on any back end.
  GatherLayout(const codec::Codec& codec, const AllGatherPlan& plan, const Traits& traits,
               std::size_t ranks);

  HopSpace feedback;
  std::vector<Piece> pieces;
  std::size_t part_bytes;  ///< wire image of a whole part: chunks add up to it
  /// Parts go from memory to their places in the result as they lie, without images: uncompressed,
  /// of one dtype, with nothing between them.
  bool in_place;
  std::size_t workspace;
};

/// Closed form of the plan that the registry's entry makes.
Description describe(const AllGatherAlgorithm& algorithm, const Ranks& ranks,
                     const AllGatherPlan& plan);

class AllGatherBase : public AllGather {
 public:
  void start(ConstView part, View full, const Run& run) final;
  [[nodiscard]] std::vector<ImageChunk> image_chunks() const final;
  void encode_image(ConstView part, std::span<std::byte> image, StreamHandle stream,
                    std::uint64_t key) final;
  void start_from_image(std::span<const std::byte> image, View full, const Run& run) final;
  [[nodiscard]] std::vector<ImageChunk> sent_chunks() const final;
  void start_from_workspace(View full, const Run& run) final;
  void finish(StreamHandle stream) final;
  [[nodiscard]] std::size_t workspace_bytes() const final { return description_.workspace; }
  [[nodiscard]] comm::Bytes volume() const final { return description_.bytes; }
  [[nodiscard]] Messages messages() const final { return description_.messages; }
  [[nodiscard]] const trace::CollectiveRow& row() const final { return meter_.row(); }

 protected:
  AllGatherBase(const Context& context, const AllGatherPlan& plan,
                const AllGatherAlgorithm& algorithm);

  /// Encodes and starts the transfer; memory of the run is in part_, full_; work goes to
  /// stream_.
  virtual void begin() = 0;
  /// Completes the transfer and decodes.
  virtual void complete() = 0;

  [[nodiscard]] std::size_t size() const { return static_cast<std::size_t>(group_.size()); }
  [[nodiscard]] std::size_t rank() const { return static_cast<std::size_t>(group_.rank()); }
  [[nodiscard]] std::size_t part_bytes() const { return layout_.part_bytes; }

  struct Piece : GatherLayout::Piece {
    std::unique_ptr<comm::Work> work;
  };
  [[nodiscard]] std::byte* slot(const Piece& piece, std::size_t index) const {
    return workspace_.data() + piece.offset + index * piece.image_bytes;
  }
  [[nodiscard]] bool in_place() const { return layout_.in_place; }
  /// Copies the own part to its place in the result, unless it lies there, and returns that: where
  /// parts are gathered in place.
  View put_own_part();
  /// The slot of the images that this rank makes.
  [[nodiscard]] virtual std::size_t own_slot() const { return rank(); }
  /// The own part's chunk -> own_slot(): encoded, or copied from the packed image, unless the run
  /// started from what lies there.
  void encode(const Piece& piece);
  /// Decodes `images` slots from `index` on into the parts of ranks first_rank, first_rank +
  /// rank_stride, ...
  void decode(const Piece& piece, std::size_t index, std::size_t images, std::size_t first_rank,
              std::size_t rank_stride);

  comm::Communicator& group_;
  Device device_;
  AllGatherPlan plan_;
  codec::Codec codec_;
  Description description_;
  Meter meter_;
  std::vector<Piece> pieces_;
  ConstView part_;  ///< empty in a run that started from images
  View full_;
  StreamHandle stream_;

 private:
  /// Starts a run from part_, image_ or, where both are empty, what lies in the workspace.
  void begin_run(View full, const Run& run);
  /// Whether the own part's chunks have images that others can make.
  [[nodiscard]] bool has_images() const { return !in_place() && !plan_.feedback; }
  void require_images() const;
  /// Checks that this plan has packed images, and that one of `bytes` bytes holds them.
  void require_image(std::size_t bytes) const;
  /// The part that start() or encode_image() was given, of the plan's elements.
  [[nodiscard]] ConstView checked_part(const ConstView& part) const;
  /// Encodes a chunk of `part` to `image`.
  void encode_chunk(const ConstView& part, const GatherLayout::Piece& piece, std::byte* image,
                    StreamHandle stream, std::uint64_t key);

  GatherLayout layout_;
  codec::Codec encoder_;  ///< codec_, which rounds fp32 first: of what is not fed back
  std::optional<HopFeedback> feedback_;
  std::span<std::byte> workspace_;
  std::span<const std::byte> image_;  ///< that the run started from, packed
  std::uint64_t key_ = 0;             ///< of the run's draws
};

}  // namespace zeropp::collective
