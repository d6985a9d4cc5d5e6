#include "lib/collective/one_hop_reduce.hpp"

#include <utility>

#include "lib/collective/transfer.hpp"

namespace zeropp::collective {

OneHopReduce::OneHopReduce(const Context& context, const ReduceScatterPlan& plan,
                           const ReduceScatterAlgorithm& algorithm, codec::Codec codec,
                           const std::string& codec_name, std::size_t block, int hop)
    : ReduceScatterBase(context, plan, algorithm, codec_name,
                        feedback_path("", plan.feedback, {hop}), block, plan.depth),
      codec_(std::move(codec)),
      encode_(feedback_in(hop, codec_, size(), layout(longest_chunk()))) {
  for (const Chunk& chunk : chunks_) {
    const std::size_t bytes = codec_.wire_bytes(padded(chunk));
    const std::size_t out = lies_encoded() ? 0 : space_.reserve(size() * bytes);
    pieces_.push_back({chunk, bytes, out, space_.reserve(size() * bytes), nullptr});
  }
}

comm::Bytes OneHopReduce::volume() const {
  return bytes_to_others(group_, codec_.wire_bytes(padded_part()));
}

Messages OneHopReduce::messages() const { return messages_to_others(group_, pieces_.size()); }

codec::Layout OneHopReduce::layout(const Chunk& chunk) const {
  return {.images = size(),
          .image_stride = plan_.parts.stride,
          .slices = 1,
          .slice_stride = 0,
          .length = chunk.length,
          .padded = padded(chunk)};
}

bool OneHopReduce::lies_encoded() const {
  return codec_.name() == "none" && plan_.memory == plan_.plain && plan_.feedback == nullptr &&
         plan_.parts.stride == plan_.parts.count && chunks_.size() == 1 &&
         codec_.wire_bytes(padded_part()) == plan_.parts.count * size_of(plan_.memory);
}

void OneHopReduce::begin() {
  if (lies_encoded()) {
    Piece& piece = pieces_.front();
    piece.work = swap_pieces(meter_, group_, static_cast<const std::byte*>(full_.data),
                             at(piece.in), piece.image_bytes, stream_);
    return;
  }
  meter_.kernels([&] { encode_.begin(at(0), stream_); });
  for (Piece& piece : pieces_) {
    meter_.kernels([&] {
      encode_.encode(slices(piece.chunk), layout(piece.chunk), plan_.parts.stride,
                     piece.chunk.first, {at(piece.out), piece.image_bytes}, stream_,
                     draw(piece.chunk, 0));
    });
    piece.work =
        swap_pieces(meter_, group_, at(piece.out), at(piece.in), piece.image_bytes, stream_);
  }
  meter_.kernels([&] { encode_.end(stream_); });
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
