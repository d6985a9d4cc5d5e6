// Reduce-scatter as a ring in rank order: the partial sum of slice p starts at rank p + 1 and gains
// one rank's values at every step, encoded again each time, until it arrives at rank p. Sums are
// fp32; with a lossy codec its error grows with the number of steps. Every step encodes: what it
// loses is not fed back, which would be N - 1 hops.
#include <algorithm>
#include <memory>
#include <vector>

#include "lib/collective/entries.hpp"
#include "lib/collective/reduce_scatter_base.hpp"

namespace zeropp::collective {

namespace {

/// An image of each chunk to the next rank and one from the last, and the partial sum in fp32.
struct FlatLayout {
  struct Piece {
    Chunk chunk;
    std::size_t image_bytes;
    std::size_t out;
    std::size_t in;
  };

  FlatLayout(const ReduceChunks& chunks, const codec::Codec& codec) {
    const codec::Codec fp32({}, Dtype::fp32);
    WorkspacePlan space;
    std::size_t largest = 0;
    for (const Chunk& chunk : chunks) {
      const std::size_t bytes = codec.wire_bytes(chunks.padded(chunk));
      const std::size_t out = space.reserve(bytes);
      pieces.push_back({chunk, bytes, out, space.reserve(bytes)});
      largest = std::max(largest, fp32.wire_bytes(chunks.padded(chunk)));
    }
    partial = space.reserve(largest);
    workspace = space.bytes();
  }

  std::vector<Piece> pieces;
  std::size_t partial;
  std::size_t workspace;
};

class Flat final : public ReduceScatterBase {
 public:
  Flat(const Context& context, const ReduceScatterPlan& plan, codec::Codec codec)
      : ReduceScatterBase(context, plan, reduce_scatter_flat, codec.block()),
        codec_(std::move(codec)),
        fp32_({}, Dtype::fp32, context.device.backend) {
    const FlatLayout layout(chunks_, codec_);
    for (const FlatLayout::Piece& piece : layout.pieces) pieces_.push_back({piece, nullptr});
    partial_ = layout.partial;
  }

 private:
  struct Piece : FlatLayout::Piece {
    std::unique_ptr<comm::Work> work;
  };

  void begin() override {
    for (Piece& piece : pieces_) {
      meter_.kernels([&] {
        const std::size_t slice = (rank() + size() - 1) % size();
        codec_.encode(slices(piece.chunk, slice), image(piece), {at(piece.out), piece.image_bytes},
                      stream_, draw(piece.chunk, 0, slice));
      });
      if (size() > 1) send(piece);
    }
  }

  void complete() override {
    for (std::size_t step = 0; step + 1 < size(); ++step) {
      const std::size_t slice = (rank() + 2 * size() - step - 2) % size();
      for (Piece& piece : pieces_) {
        meter_.wait(piece.work, stream_);
        meter_.kernels([&] { gain(piece, slice, step + 1); });
        if (slice != rank()) send(piece);
      }
    }
    if (size() > 1) return;
    for (const Piece& piece : pieces_) {
      meter_.kernels([&] {
        codec_.decode_reduce({at(piece.out), piece.image_bytes}, 1, padded(piece.chunk),
                             piece.chunk.length, sum(piece.chunk), stream_);
      });
    }
  }

  /// The received partial sum plus the own values of `slice`: into sum_ where it ends here, else
  /// encoded for the next rank, on `hop`.
  void gain(const Piece& piece, std::size_t slice, std::size_t hop) {
    auto* partial = reinterpret_cast<float*>(at(partial_));
    const codec::WireImages fp32_image{at(partial_), 0};
    fp32_.encode(slices(piece.chunk, slice), image(piece), fp32_image, stream_);
    codec_.decode_add({at(piece.in), piece.image_bytes}, padded(piece.chunk), piece.chunk.length,
                      partial, stream_);
    if (slice == rank()) {
      fp32_.decode(fp32_image, image(piece), sum_.part(piece.chunk.first, piece.chunk.length),
                   stream_);
    } else {
      codec_.encode(ConstView::of(partial, piece.chunk.length, full_.kind), image(piece),
                    {at(piece.out), piece.image_bytes}, stream_, draw(piece.chunk, hop, slice));
    }
  }

  void send(Piece& piece) {
    piece.work = meter_.ring_step(group_, at(piece.out), at(piece.in), piece.image_bytes, stream_);
  }

  [[nodiscard]] codec::Layout image(const Piece& piece) const {
    auto layout = codec::Layout::contiguous(piece.chunk.length);
    layout.padded = padded(piece.chunk);
    return layout;
  }

  codec::Codec codec_;
  codec::Codec fp32_;  ///< its wire image is a row of fp32 values: the partial sum
  std::vector<Piece> pieces_;
  std::size_t partial_ = 0;
};

}  // namespace

const ReduceScatterAlgorithm reduce_scatter_flat = {
    .name = "flat",
    .summary = "ring in rank order, partial sums encoded again at every step",
    .traits = {.hierarchical = false, .any_codec = true, .modelled = false, .deterministic = true},
    .ranks_in_sums =
        [](const comm::Topology& topology) {
          return std::max<std::size_t>(1, static_cast<std::size_t>(topology.world_size) - 1);
        },
    .describe = [](const Ranks& ranks, const ReduceScatterPlan& plan) -> Description {
      const codec::Codec codec(plan.codec_first, plan.plain);
      const ReduceChunks chunks(plan, reduce_scatter_flat.traits, codec.block());
      return described(reduce_scatter_flat, ranks, plan,
                       {bytes_along_ring(ranks.group, codec.wire_bytes(chunks.padded_part())),
                        messages_along_ring(ranks.group, chunks.size())},
                       FlatLayout(chunks, codec).workspace, codec.name());
    },
    .plan = [](const Context& context,
               const ReduceScatterPlan& plan) -> std::unique_ptr<ReduceScatter> {
      return std::make_unique<Flat>(
          context, plan, codec::Codec(plan.codec_first, plan.plain, context.device.backend));
    }};

}  // namespace zeropp::collective
