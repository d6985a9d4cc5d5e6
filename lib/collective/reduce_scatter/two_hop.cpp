// 2-hop: qgZ (ZeRO++, arXiv 2306.10209, section 3.3). Slices are reordered while they are encoded,
// so that local rank g receives, inside the node, the slices p = k * G + g of all nodes k; their
// sums over the node are encoded again and cross nodes among equal local ranks; rank r ends with
// slice r. The own contributions go through the codecs as well. While the second hop of a chunk
// travels, later chunks are still in their first. With error feedback in the second hop the sums
// over the node lie in scratch between decoding and encoding, and slices carry no padding on. On
// one node, or with nodes of one rank, one hop is left, which is OneHopReduce in that hop's codec.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "lib/collective/entries.hpp"
#include "lib/collective/one_hop_reduce.hpp"
#include "lib/collective/reduce_scatter_base.hpp"
#include "lib/collective/transfer.hpp"

namespace zeropp::collective {

namespace {

struct Codecs {
  Codecs(const Context& context, const ReduceScatterPlan& plan)
      : first(plan.codec_first, plan.plain, context.device.backend),
        second(plan.codec_second, plan.plain, context.device.backend) {}
  [[nodiscard]] std::string name() const { return first.name() + "/" + second.name(); }
  [[nodiscard]] std::size_t block() const { return std::max(first.block(), second.block()); }

  codec::Codec first;
  codec::Codec second;
};

class TwoHop final : public ReduceScatterBase {
 public:
  TwoHop(const Context& context, const ReduceScatterPlan& plan, const Codecs& codecs)
      : TwoHop(context, plan, codecs, codec::ReduceEncode(codecs.first, codecs.second)) {}

  [[nodiscard]] comm::Bytes volume() const override {
    comm::Bytes sum = bytes_to_others(node_, codecs_.first.wire_bytes(nodes() * padded_part()));
    sum += bytes_to_others(rail_, codecs_.second.wire_bytes(padded_part()));
    return sum;
  }
  [[nodiscard]] Messages messages() const override {
    Messages sum = messages_to_others(node_, pieces_.size());
    sum += messages_to_others(rail_, pieces_.size());
    return sum;
  }

 private:
  /// A chunk: on the first hop an image of K slices to and from every rank of the node, on the
  /// second one of a slice to and from every node.
  struct Piece {
    Chunk chunk;
    std::size_t first_bytes;
    std::size_t second_bytes;
    std::size_t first_out;
    std::size_t first_in;
    std::size_t second_out;
    std::size_t second_in;
    std::unique_ptr<comm::Work> work;
  };

  TwoHop(const Context& context, const ReduceScatterPlan& plan, const Codecs& codecs,
         codec::ReduceEncode between)
      : ReduceScatterBase(context, plan, reduce_scatter_two_hop, codecs.name(), path(plan, between),
                          codecs.block(), plan.depth),
        node_(*context.groups.node),
        rail_(*context.groups.rail),
        codecs_(codecs),
        between_(std::move(between)),
        encode_first_(feedback_in(1, codecs_.first, size(), first_layout(longest_chunk()))),
        encode_second_(feedback_in(2, codecs_.second, nodes(), second_layout(longest_chunk()))) {
    std::size_t scratch = 0;
    for (const Chunk& chunk : chunks_) {
      const std::size_t first = codecs_.first.wire_bytes(nodes() * padded(chunk));
      const std::size_t second = codecs_.second.wire_bytes(padded(chunk));
      pieces_.push_back({chunk, first, second, space_.reserve(locals() * first),
                         space_.reserve(locals() * first), space_.reserve(nodes() * second),
                         space_.reserve(nodes() * second), nullptr});
      scratch = std::max(scratch, encode_second_.feeds_back()
                                      ? nodes() * padded(chunk)
                                      : between_.scratch_elements(nodes(), padded(chunk)));
    }
    scratch_ = space_.reserve(scratch * sizeof(float));
  }

  static std::string path(const ReduceScatterPlan& plan, const codec::ReduceEncode& between) {
    const bool feeds_back = plan.feedback != nullptr && plan.feedback->in(2);
    return feedback_path(feeds_back ? "composed" : between.path(), plan.feedback, {1, 2});
  }
  /// For every rank of the node an image of the slices that its rail ends with.
  [[nodiscard]] codec::Layout first_layout(const Chunk& chunk) const {
    return {.images = locals(),
            .image_stride = plan_.parts.stride,
            .slices = nodes(),
            .slice_stride = locals() * plan_.parts.stride,
            .length = chunk.length,
            .padded = padded(chunk)};
  }
  /// Of the node's sums in scratch: an image for every node.
  [[nodiscard]] codec::Layout second_layout(const Chunk& chunk) const {
    return {.images = nodes(),
            .image_stride = padded(chunk),
            .slices = 1,
            .slice_stride = 0,
            .length = chunk.length,
            .padded = padded(chunk)};
  }

  [[nodiscard]] std::size_t nodes() const { return static_cast<std::size_t>(rail_.size()); }
  [[nodiscard]] std::size_t locals() const { return static_cast<std::size_t>(node_.size()); }

  void begin() override {
    meter_.kernels([&] { encode_first_.begin(at(0), stream_); });
    for (Piece& piece : pieces_) {
      meter_.kernels([&] {
        codec::Draw draws = draw(piece.chunk, 0);
        draws.slice_step *= locals();
        encode_first_.encode(slices(piece.chunk), first_layout(piece.chunk), plan_.parts.stride,
                             piece.chunk.first, {at(piece.first_out), piece.first_bytes}, stream_,
                             draws);
      });
      piece.work = swap_pieces(meter_, node_, at(piece.first_out), at(piece.first_in),
                               piece.first_bytes, stream_);
    }
    meter_.kernels([&] { encode_first_.end(stream_); });
  }

  void complete() override {
    meter_.kernels([&] { encode_second_.begin(at(0), stream_); });
    Piece* previous = nullptr;
    for (Piece& piece : pieces_) {
      cross_nodes(piece);
      if (previous != nullptr) collect(*previous);
      previous = &piece;
    }
    if (previous != nullptr) collect(*previous);
    meter_.kernels([&] { encode_second_.end(stream_); });
  }

  void cross_nodes(Piece& piece) {
    meter_.wait(piece.work, stream_);
    meter_.kernels([&] { sum_and_encode(piece); });
    piece.work = swap_pieces(meter_, rail_, at(piece.second_out), at(piece.second_in),
                             piece.second_bytes, stream_);
  }

  void sum_and_encode(const Piece& piece) {
    const codec::ConstWireImages in{at(piece.first_in), piece.first_bytes};
    const codec::WireImages out{at(piece.second_out), piece.second_bytes};
    auto* const scratch = reinterpret_cast<float*>(at(scratch_));
    const std::size_t count = padded(piece.chunk);
    codec::Draw draws = draw(piece.chunk, 1, static_cast<std::size_t>(node_.rank()));
    draws.image_step *= locals();
    if (!encode_second_.feeds_back()) {
      between_.run(in, locals(), nodes(), count, out, scratch, stream_, draws);
      return;
    }
    const std::size_t n = nodes() * count;
    codecs_.first.decode_reduce(in, locals(), n, n, scratch, stream_);
    encode_second_.encode(ConstView::of(scratch, n, full_.kind), second_layout(piece.chunk), count,
                          piece.chunk.first, out, stream_, draws);
  }

  void collect(Piece& piece) {
    meter_.wait(piece.work, stream_);
    meter_.kernels([&] {
      codecs_.second.decode_reduce({at(piece.second_in), piece.second_bytes}, nodes(),
                                   padded(piece.chunk), piece.chunk.length, sum(piece.chunk),
                                   stream_);
    });
  }

  comm::Communicator& node_;
  comm::Communicator& rail_;
  Codecs codecs_;
  codec::ReduceEncode between_;
  HopEncode encode_first_;
  HopEncode encode_second_;
  std::vector<Piece> pieces_;
  std::size_t scratch_ = 0;
};

std::unique_ptr<ReduceScatter> plan_two_hop(const Context& context, const ReduceScatterPlan& plan) {
  const Codecs codecs(context, plan);
  // One node has no second hop, nodes of one rank have no first: what remains still compresses.
  const comm::Topology& topology = context.groups.topology;
  if (topology.node_count > 1 && topology.ranks_per_node > 1) {
    return std::make_unique<TwoHop>(context, plan, codecs);
  }
  const bool first = topology.node_count == 1;
  const codec::Codec& only = first ? codecs.first : codecs.second;
  return std::make_unique<OneHopReduce>(context, plan, reduce_scatter_two_hop, only, only.name(),
                                        codecs.block(), first ? 1 : 2);
}

}  // namespace

const ReduceScatterAlgorithm reduce_scatter_two_hop = {
    .name = "2-hop",
    .summary = "qgZ: inside the node, encode the sums again, across nodes on rails",
    .traits = {.hierarchical = true,
               .any_codec = true,
               .modelled = false,
               .deterministic = true,
               .to_everyone = true,
               .feedback = true},
    .ranks_in_sums =
        [](const comm::Topology& topology) {
          return topology.node_count > 1 ? static_cast<std::size_t>(topology.ranks_per_node) : 1;
        },
    .plan = plan_two_hop};

}  // namespace zeropp::collective
