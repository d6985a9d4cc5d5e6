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
#include <stdexcept>
#include <vector>

#include "lib/collective/entries.hpp"
#include "lib/collective/one_hop_reduce.hpp"
#include "lib/collective/reduce_scatter_base.hpp"

namespace zeropp::collective {

namespace {

struct Codecs {
  explicit Codecs(const ReduceScatterPlan& plan, Backend backend = Backend::host)
      : first(plan.codec_first, plan.plain, backend),
        second(plan.codec_second, plan.plain, backend) {}
  [[nodiscard]] std::string name() const { return first.name() + "/" + second.name(); }
  [[nodiscard]] std::size_t block() const { return std::max(first.block(), second.block()); }

  codec::Codec first;
  codec::Codec second;
};

struct Shape {
  std::size_t nodes;
  std::size_t locals;
};

/// Layout of the first hop: for every rank of the node an image of the slices that its rail ends
/// with.
codec::Layout first_layout(const ReduceChunks& chunks, const Parts& parts, const Shape& shape,
                           const Chunk& chunk) {
  return {.images = shape.locals,
          .image_stride = parts.stride,
          .slices = shape.nodes,
          .slice_stride = shape.locals * parts.stride,
          .length = chunk.length,
          .padded = chunks.padded(chunk)};
}
/// Layout of the second hop, of the node's sums in scratch: an image for every node.
codec::Layout second_layout(const ReduceChunks& chunks, const Shape& shape, const Chunk& chunk) {
  return {.images = shape.nodes,
          .image_stride = chunks.padded(chunk),
          .slices = 1,
          .slice_stride = 0,
          .length = chunk.length,
          .padded = chunks.padded(chunk)};
}

/// Whether the sums over the node lie in scratch for the errors of the second hop.
bool feeds_back_sums(const ReduceScatterPlan& plan) {
  return plan.feedback && plan.feedback->options.in(2);
}

struct TwoHopLayout {
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
  };

  TwoHopLayout(const ReduceChunks& chunks, const ReduceScatterPlan& plan, const Codecs& codecs,
               const codec::ReduceEncode& between, const Shape& shape) {
    const auto [nodes, locals] = shape;
    const Chunk longest = chunks.longest();
    WorkspacePlan space;
    first_feedback = reserve_hop(space, plan.feedback, 1, nodes * locals, plan.parts.count,
                                 first_layout(chunks, plan.parts, shape, longest));
    second_feedback = reserve_hop(space, plan.feedback, 2, nodes, plan.parts.count,
                                  second_layout(chunks, shape, longest));
    std::size_t largest = 0;
    for (const Chunk& chunk : chunks) {
      const std::size_t padded = chunks.padded(chunk);
      const std::size_t first = codecs.first.wire_bytes(nodes * padded);
      const std::size_t second = codecs.second.wire_bytes(padded);
      pieces.push_back({chunk, first, second, space.reserve(locals * first),
                        space.reserve(locals * first), space.reserve(nodes * second),
                        space.reserve(nodes * second)});
      largest = std::max(largest, feeds_back_sums(plan) ? nodes * padded
                                                        : between.scratch_elements(nodes, padded));
    }
    scratch = space.reserve(largest * sizeof(float));
    workspace = space.bytes();
  }

  HopSpace first_feedback;
  HopSpace second_feedback;
  std::vector<Piece> pieces;
  std::size_t scratch;
  std::size_t workspace;
};

class TwoHop final : public ReduceScatterBase {
 public:
  TwoHop(const Context& context, const ReduceScatterPlan& plan, const Codecs& codecs)
      : TwoHop(context, plan, codecs, codec::ReduceEncode(codecs.first, codecs.second)) {}

 private:
  struct Piece : TwoHopLayout::Piece {
    std::unique_ptr<comm::Work> work;
  };

  TwoHop(const Context& context, const ReduceScatterPlan& plan, const Codecs& codecs,
         codec::ReduceEncode between)
      : ReduceScatterBase(context, plan, reduce_scatter_two_hop, codecs.block()),
        node_(*context.groups.node),
        rail_(*context.groups.rail),
        codecs_(codecs),
        between_(std::move(between)),
        layout_(chunks_, plan, codecs_, between_, shape()),
        first_feedback_(feedback_in(1, codecs_.first, size(), layout_.first_feedback)),
        second_feedback_(feedback_in(2, codecs_.second, nodes(), layout_.second_feedback)) {
    // Codecs of a device could be fused in other pairs than those of the host, which describe.
    if (layout_.workspace != workspace_bytes())
      throw std::logic_error("2-hop: its workspace is not the described one");
    for (const TwoHopLayout::Piece& piece : layout_.pieces) pieces_.push_back({piece, nullptr});
  }

  [[nodiscard]] codec::Layout first_layout(const Chunk& chunk) const {
    return collective::first_layout(chunks_, plan_.parts, shape(), chunk);
  }
  [[nodiscard]] codec::Layout second_layout(const Chunk& chunk) const {
    return collective::second_layout(chunks_, shape(), chunk);
  }

  [[nodiscard]] Shape shape() const { return {nodes(), locals()}; }
  [[nodiscard]] std::size_t nodes() const { return static_cast<std::size_t>(rail_.size()); }
  [[nodiscard]] std::size_t locals() const { return static_cast<std::size_t>(node_.size()); }

  void begin() override {
    if (first_feedback_) meter_.kernels([&] { first_feedback_->begin(at(0), stream_); });
    for (Piece& piece : pieces_) {
      const codec::Layout layout = first_layout(piece.chunk);
      const codec::WireImages out{at(piece.first_out), piece.first_bytes};
      codec::Draw draws = draw(piece.chunk, 0);
      draws.slice_step *= locals();
      meter_.kernels([&] {
        if (first_feedback_) {
          first_feedback_->encode(slices(piece.chunk), layout, plan_.parts.stride,
                                  piece.chunk.first, out, stream_, draws);
        } else {
          codecs_.first.encode(slices(piece.chunk), layout, out, stream_, draws);
        }
      });
      piece.work = meter_.exchange_equal(node_, at(piece.first_out), at(piece.first_in),
                                         piece.first_bytes, stream_);
    }
    if (first_feedback_) meter_.kernels([&] { first_feedback_->end(stream_); });
  }

  void complete() override {
    if (second_feedback_) meter_.kernels([&] { second_feedback_->begin(at(0), stream_); });
    Piece* previous = nullptr;
    for (Piece& piece : pieces_) {
      cross_nodes(piece);
      if (previous != nullptr) collect(*previous);
      previous = &piece;
    }
    if (previous != nullptr) collect(*previous);
    if (second_feedback_) meter_.kernels([&] { second_feedback_->end(stream_); });
  }

  void cross_nodes(Piece& piece) {
    meter_.wait(piece.work, stream_);
    meter_.kernels([&] { sum_and_encode(piece); });
    piece.work = meter_.exchange_equal(rail_, at(piece.second_out), at(piece.second_in),
                                       piece.second_bytes, stream_);
  }

  void sum_and_encode(const Piece& piece) {
    const codec::ConstWireImages in{at(piece.first_in), piece.first_bytes};
    const codec::WireImages out{at(piece.second_out), piece.second_bytes};
    auto* const scratch = reinterpret_cast<float*>(at(layout_.scratch));
    const std::size_t count = padded(piece.chunk);
    codec::Draw draws = draw(piece.chunk, 1, static_cast<std::size_t>(node_.rank()));
    draws.image_step *= locals();
    if (!second_feedback_) {
      between_.run(in, locals(), nodes(), count, out, scratch, stream_, draws);
      return;
    }
    const std::size_t n = nodes() * count;
    codecs_.first.decode_reduce(in, locals(), n, n, scratch, stream_);
    second_feedback_->encode(ConstView::of(scratch, n, full_.kind), second_layout(piece.chunk),
                             count, piece.chunk.first, out, stream_, draws);
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
  TwoHopLayout layout_;
  std::optional<HopFeedback> first_feedback_;
  std::optional<HopFeedback> second_feedback_;
  std::vector<Piece> pieces_;
};

/// The only hop where one is missing, or 0 where both are there. One node has no second hop, nodes
/// of one rank have no first: the hop that remains still compresses.
int only_hop(const comm::Topology& topology) {
  if (topology.node_count > 1 && topology.ranks_per_node > 1) return 0;
  return topology.node_count == 1 ? 1 : 2;
}

Description describe_two_hop(const Ranks& ranks, const ReduceScatterPlan& plan) {
  const Codecs codecs(plan);
  const auto& [topology, world, node, rail] = ranks.levels;
  if (const int hop = only_hop(topology); hop != 0) {
    return describe_one_hop(ranks, plan, reduce_scatter_two_hop,
                            hop == 1 ? codecs.first : codecs.second, codecs.block(), hop);
  }
  const ReduceChunks chunks(plan, reduce_scatter_two_hop.traits, codecs.block());
  const std::size_t padded = chunks.padded_part();
  Traffic sum{bytes_to_others(node, codecs.first.wire_bytes(rail.size * padded)),
              messages_to_others(node, chunks.size())};
  sum.bytes += bytes_to_others(rail, codecs.second.wire_bytes(padded));
  sum.messages += messages_to_others(rail, chunks.size());
  const codec::ReduceEncode between(codecs.first, codecs.second);
  return described(
      reduce_scatter_two_hop, ranks, plan, sum,
      TwoHopLayout(chunks, plan, codecs, between, {rail.size, node.size}).workspace, codecs.name(),
      feedback_path(feeds_back_sums(plan) ? "composed" : between.path(), plan.feedback, {1, 2}));
}

std::unique_ptr<ReduceScatter> plan_two_hop(const Context& context, const ReduceScatterPlan& plan) {
  const Codecs codecs(plan, context.device.backend);
  const int hop = only_hop(context.groups.topology);
  if (hop == 0) return std::make_unique<TwoHop>(context, plan, codecs);
  const codec::Codec& only = hop == 1 ? codecs.first : codecs.second;
  return std::make_unique<OneHopReduce>(context, plan, reduce_scatter_two_hop, only, codecs.block(),
                                        hop);
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
    .describe = describe_two_hop,
    .plan = plan_two_hop};

}  // namespace zeropp::collective
