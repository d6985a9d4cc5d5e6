#include "lib/collective/one_hop_reduce.hpp"

#include <cstdint>
#include <span>
#include <utility>

namespace zeropp::collective {

namespace {

/// Shared memory that thread blocks take which encode over the link: four of them lie on a
/// multiprocessor of an H100 or H200 instead of eight, and half of it is left to those that encode
/// the own part, decode and sum.
constexpr std::size_t kRoomOverLink = codec::Codec::kMostIdleShared;

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
      encode_(feedback_in(hop, codec_, size(), layout_.feedback)) {
  for (const OneHopLayout::Piece& piece : layout_.pieces) pieces_.push_back({piece, nullptr});
}

codec::Layout OneHopReduce::layout(const Chunk& chunk) const {
  return layout_of(chunks_, plan_.parts, size(), chunk);
}

void OneHopReduce::begin() {
  stores_ = false;
  if (layout_.zero_copy) {
    Piece& piece = pieces_.front();
    piece.work = meter_.exchange_equal(group_, static_cast<const std::byte*>(full_.data),
                                       at(piece.in), piece.image_bytes, stream_);
    return;
  }
  comm::PeerMemory* const peers = peers_to_store_into();
  stores_ = peers != nullptr;
  if (stores_) {
    store_into(*peers);
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
        meter_.exchange_equal(group_, at(piece.out), at(piece.in), piece.image_bytes, stream_);
  }
  meter_.kernels([&] { encode_.end(stream_); });
}

comm::PeerMemory* OneHopReduce::peers_to_store_into() const {
  // What encoding loses is worked out from the image, which has to lie here.
  if (encode_.feeds_back() || layout_.pieces.empty()) return nullptr;
  return group_.peer_memory({at(0), layout_.workspace});
}

void OneHopReduce::store_into(comm::PeerMemory& peers) {
  meter_.count_peer_stores();
  const codec::Codec over_link = codec_.leaving_room(kRoomOverLink);
  StreamHandle link;
  meter_.communication([&] { link = peers.begin(stream_); });
  // Ranks begin with the next one, so that not all store into one at a time.
  for (Piece& piece : pieces_) {
    meter_.kernels([&] {
      for (std::size_t ahead = 1; ahead < size(); ++ahead) {
        const std::size_t peer = (rank() + ahead) % size();
        encode_image(over_link, piece, peer, peers.at(own_image(piece), static_cast<int>(peer)),
                     link);
      }
    });
    piece.work = meter_.stored(peers, piece.image_bytes);
  }
}

std::byte* OneHopReduce::own_image(const Piece& piece) const {
  return at(piece.in) + rank() * piece.image_bytes;
}

void OneHopReduce::encode_image(const codec::Codec& codec, const Piece& piece, std::size_t part,
                                std::byte* image, StreamHandle stream) const {
  codec::Layout one = layout(piece.chunk);
  one.images = 1;
  codec.encode(slices(piece.chunk, part), one, {image, piece.image_bytes}, stream,
               draw(piece.chunk, 0, part));
}

bool OneHopReduce::sum_lies_in_input() const {
  const auto begin = [](const auto& view) { return reinterpret_cast<std::uintptr_t>(view.data); };
  return begin(sum_) < begin(full_) + full_.bytes() && begin(full_) < begin(sum_) + sum_.bytes();
}

void OneHopReduce::arrive(Piece& piece) {
  // The own image takes no link: it is encoded while others' are still on their way, and read soon.
  if (stores_) {
    meter_.kernels([&] { encode_image(codec_, piece, rank(), own_image(piece), stream_); });
  }
  meter_.wait(piece.work, stream_);
}

void OneHopReduce::complete() {
  // Stores into peers read the input on another stream until their Work is complete, and so does
  // the encoding of own images: a sum over the input waits for all of them.
  const bool after_all = stores_ && sum_lies_in_input();
  if (after_all) {
    for (Piece& piece : pieces_) arrive(piece);
  }
  for (Piece& piece : pieces_) {
    if (!after_all) arrive(piece);
    meter_.kernels([&] {
      codec_.decode_reduce({at(piece.in), piece.image_bytes}, size(), padded(piece.chunk),
                           piece.chunk.length, sum(piece.chunk), stream_);
    });
  }
}

}  // namespace zeropp::collective
