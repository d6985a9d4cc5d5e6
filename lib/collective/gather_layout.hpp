// Layout of an all-gather: how every algorithm cuts its plan, and where the wire images of each
// chunk lie in the workspace, one slot a rank. It is a closed form that runners and descriptions
// share.
#pragma once

#include <cstddef>
#include <vector>

#include "kernels/codec/codec.hpp"
#include "lib/collective/chunks.hpp"
#include "lib/collective/hop_encode.hpp"
#include "lib/collective/plan.hpp"
#include "lib/collective/traits.hpp"

namespace zeropp::collective {

/// The hop of error feedback that an all-gather's encoding is.
inline constexpr int kGatherFeedbackHop = 2;

struct GatherLayout {
  /// A chunk and its images: slot s begins at s * image_bytes.
  struct Piece {
    Chunk chunk;
    std::size_t image_bytes;
    std::size_t offset;  ///< of slot 0
  };

  /// `codec` is plan.codec, on any back end.
  GatherLayout(const codec::Codec& codec, const AllGatherPlan& plan, const Traits& traits,
               std::size_t ranks);

  HopSpace feedback;
  std::vector<Piece> pieces;
  std::size_t part_bytes;  ///< wire image of a whole part: chunks add up to it
  std::size_t workspace;
};

/// Layout of `length` values that are encoded together.
codec::Layout gathered_layout(std::size_t length, std::size_t block);

}  // namespace zeropp::collective
