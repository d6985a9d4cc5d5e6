// Reduce-scatter in one hop: every rank encodes each part, an all-to-all brings the images of part
// r to rank r, which decodes and sums them in rank order in fp32. The own part goes through the
// codec as well. With error feedback where the plan asks for it. Shared by `1-hop`, `ordered` and
// the ends of `2-hop` where one of its hops is empty.
#pragma once

#include <memory>
#include <vector>

#include "lib/collective/hop_feedback.hpp"
#include "lib/collective/reduce_scatter_base.hpp"

namespace zeropp::collective {

/// Closed form of a 1-hop reduction: where the images of each chunk lie, and the workspace that
/// they take.
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

  codec::Codec codec_;
  OneHopLayout layout_;
  std::vector<Piece> pieces_;
  std::optional<HopFeedback> feedback_;
};

}  // namespace zeropp::collective
