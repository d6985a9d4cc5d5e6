#include "lib/collective/one_hop_reduce.hpp"

#include <span>
#include <utility>

namespace zeropp::collective {

namespace {

/// Layout of a chunk: an image for every rank, of its part.
codec::Layout layout_of(const ReduceChunks& chunks, const Parts& parts, std::size_t ranks,
                        const Chunk& chunk) {
  return {.images = ranks,
          .image_stride = parts.stride,
          .slices = 1,
          .slice_stride = 0,
          .length = chunk.length,
          .padded = chunks.padded(chunk)};
}

}  // namespace

OneHopLayout::OneHopLayout(const ReduceChunks& chunks, const ReduceScatterPlan& plan,
                           const codec::Codec& codec, std::size_t ranks, int hop)
    : zero_copy(codec.name() == "none" && plan.memory == plan.plain && !plan.feedback &&
                plan.parts.stride == plan.parts.count && chunks.size() == 1 &&
                codec.wire_bytes(chunks.padded_part()) == plan.parts.count * size_of(plan.memory)) {
  WorkspacePlan space;
  feedback = reserve_hop(space, plan.feedback, hop, ranks, plan.parts.count,
                         layout_of(chunks, plan.parts, ranks, chunks.longest()));
  for (const Chunk& chunk : chunks) {
    const std::size_t bytes = codec.wire_bytes(chunks.padded(chunk));
    const std::size_t out = zero_copy ? 0 : space.reserve(ranks * bytes);
    pieces.push_back({chunk, bytes, out, space.reserve(ranks * bytes)});
  }
  workspace = space.bytes();
}

Description describe_one_hop(const Ranks& ranks, const ReduceScatterPlan& plan,
                             const ReduceScatterAlgorithm& algorithm, const codec::Codec& codec,
                             std::size_t block, int hop) {
  const ReduceChunks chunks(plan, algorithm.traits, block);
  return described(algorithm, ranks, plan,
                   {bytes_to_others(ranks.group, codec.wire_bytes(chunks.padded_part())),
                    messages_to_others(ranks.group, chunks.size())},
                   OneHopLayout(chunks, plan, codec, ranks.group.size, hop).workspace, codec.name(),
                   feedback_path("", plan.feedback, {hop}));
}

OneHopReduce::OneHopReduce(const Context& context, const ReduceScatterPlan& plan,
                           const ReduceScatterAlgorithm& algorithm, codec::Codec codec,
                           std::size_t block, int hop)
    : ReduceScatterBase(context, plan, algorithm, block),
      codec_(std::move(codec)),
      layout_(chunks_, plan, codec_, size(), hop),
      feedback_(feedback_in(hop, codec_, size(), layout_.feedback)) {
  for (const OneHopLayout::Piece& piece : layout_.pieces) pieces_.push_back({piece, nullptr});
}

codec::Layout OneHopReduce::layout(const Chunk& chunk) const {
  return layout_of(chunks_, plan_.parts, size(), chunk);
}

void OneHopReduce::begin() {
  if (layout_.zero_copy) {
    Piece& piece = pieces_.front();
    piece.work = meter_.exchange_equal(group_, static_cast<const std::byte*>(full_.data),
                                       at(piece.in), piece.image_bytes, stream_);
    return;
  }
  if (feedback_) meter_.kernels([&] { feedback_->begin(at(0), stream_); });
  for (Piece& piece : pieces_) {
    const codec::WireImages out{at(piece.out), piece.image_bytes};
    meter_.kernels([&] {
      if (feedback_) {
        feedback_->encode(slices(piece.chunk), layout(piece.chunk), plan_.parts.stride,
                          piece.chunk.first, out, stream_, draw(piece.chunk, 0));
      } else {
        codec_.encode(slices(piece.chunk), layout(piece.chunk), out, stream_, draw(piece.chunk, 0));
      }
    });
    piece.work =
        meter_.exchange_equal(group_, at(piece.out), at(piece.in), piece.image_bytes, stream_);
  }
  if (feedback_) meter_.kernels([&] { feedback_->end(stream_); });
}

void OneHopReduce::complete() {
  for (Piece& piece : pieces_) {
    meter_.wait(piece.work, stream_);
    meter_.kernels([&] {
      codec_.decode_reduce({at(piece.in), piece.image_bytes}, size(), padded(piece.chunk),
                           piece.chunk.length, sum(piece.chunk), stream_);
    });
  }
}

}  // namespace zeropp::collective
