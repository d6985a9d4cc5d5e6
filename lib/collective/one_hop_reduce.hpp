// Reduce-scatter in one hop: every rank encodes each part, an all-to-all brings the images of part
// r to rank r, which decodes and sums them in rank order in fp32. The own part goes through the
// codec as well. With error feedback where the plan asks for it. Shared by `1-hop`, `ordered` and
// the ends of `2-hop` where one of its hops is empty. Where kernels reach the memory of the other
// ranks (comm::PeerMemory), images are encoded into the places that they arrive at: the same bits
// and bytes, but none is written here, read and copied. With error feedback, and where nothing is
// encoded, images are exchanged.
#pragma once

#include <memory>
#include <vector>

#include "lib/collective/hop_encode.hpp"
#include "lib/collective/reduce_scatter_base.hpp"

namespace zeropp::collective {

/// Closed form of a 1-hop reduction: where the images of each chunk lie, and what they add up to.
struct OneHopLayout {
  /// A chunk: one image to and from every rank.
  struct Piece {
    Chunk chunk;
    std::size_t image_bytes;
    std::size_t out;  ///< nothing with zero copy
    std::size_t in;
  };

  /// `codec`: the one that encodes, on any back end. `hop`: 1, or 2 where this reduction is the
  /// second hop of a two-hop one.
  OneHopLayout(const ReduceChunks& chunks, const ReduceScatterPlan& plan, const codec::Codec& codec,
               std::size_t ranks, int hop);

  HopSpace feedback;
  /// Whether messages are sent straight from the input, without an image: the input is not cut into
  /// chunks, not compressed, and of the dtype that is sent.
  bool zero_copy;
  std::vector<Piece> pieces;
  std::size_t workspace;
};

Description describe_one_hop(const Ranks& ranks, const ReduceScatterPlan& plan,
                             const ReduceScatterAlgorithm& algorithm, const codec::Codec& codec,
                             std::size_t block, int hop = 1);

class OneHopReduce final : public ReduceScatterBase {
 public:
  /// `codec` encodes; parts are padded to multiples of `block`. `hop`: as of the layout.
  OneHopReduce(const Context& context, const ReduceScatterPlan& plan,
               const ReduceScatterAlgorithm& algorithm, codec::Codec codec, std::size_t block,
               int hop = 1);

 private:
  void begin() override;
  void complete() override;

  struct Piece : OneHopLayout::Piece {
    std::unique_ptr<comm::Work> work;
  };
  [[nodiscard]] codec::Layout layout(const Chunk& chunk) const;

  /// Memory of the other ranks that kernels encode images into; null where images are sent as
  /// messages. The same answer on all ranks.
  [[nodiscard]] comm::PeerMemory* peers_to_store_into() const;
  /// Encodes the part of each other rank into that rank's memory.
  void store_into(comm::PeerMemory& peers);
  /// Whether the sum lies in the input: writing it would overwrite values that are still to be
  /// encoded.
  [[nodiscard]] bool sum_lies_in_input() const;
  /// Makes stream_ wait until all images of a chunk have arrived.
  void arrive(Piece& piece);
  /// Place of the image that comes from this rank: on every rank the same in its workspace.
  [[nodiscard]] std::byte* own_image(const Piece& piece) const;
  /// Encodes this rank's values of part `part` of a chunk.
  void encode_image(const codec::Codec& codec, const Piece& piece, std::size_t part,
                    std::byte* image, StreamHandle stream) const;

  codec::Codec codec_;
  OneHopLayout layout_;
  std::vector<Piece> pieces_;
  HopEncode encode_;
  bool stores_ = false;  ///< the run encodes into peers' memory
};

}  // namespace zeropp::collective
