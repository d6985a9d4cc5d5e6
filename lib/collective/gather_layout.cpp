#include "lib/collective/gather_layout.hpp"

namespace zeropp::collective {

codec::Layout gathered_layout(std::size_t length, std::size_t block) {
  auto layout = codec::Layout::contiguous(length);
  layout.padded = round_up(length, block);
  return layout;
}

GatherLayout::GatherLayout(const codec::Codec& codec, const AllGatherPlan& plan,
                           const Traits& traits, std::size_t ranks)
    : part_bytes(codec.wire_bytes(plan.parts.count)) {
  const std::size_t count = plan.parts.count;
  WorkspacePlan space;
  feedback = reserve_hop(space, plan.feedback, kGatherFeedbackHop, 1, count,
                         gathered_layout(count, codec.block()));
  for (const Chunk& chunk : chunk_plan(count, traits.one_chunk ? 1 : plan.depth, codec.block())) {
    const std::size_t bytes = codec.wire_bytes(chunk.length);
    pieces.push_back({chunk, bytes, space.reserve(ranks * bytes)});
  }
  workspace = space.bytes();
}

}  // namespace zeropp::collective
