// All-gather in two levels: first across nodes among equal local ranks, every rank on its own rail,
// then inside the node. Images stay encoded on both levels and are decoded once. While chunk c
// travels inside the node, later chunks are still on the rails.
#include "lib/collective/all_gather_base.hpp"
#include "lib/collective/entries.hpp"

namespace zeropp::collective {

namespace {

class TwoLevel final : public AllGatherBase {
 public:
  TwoLevel(const Context& context, const AllGatherPlan& plan)
      : AllGatherBase(context, plan, all_gather_two_level),
        node_(*context.groups.node),
        rail_(*context.groups.rail) {}

 private:
  [[nodiscard]] std::size_t nodes() const { return static_cast<std::size_t>(rail_.size()); }
  [[nodiscard]] std::size_t locals() const { return static_cast<std::size_t>(node_.size()); }

  // Slot local * K + node: what one rail brings lies together, so it is one message inside the
  // node.
  [[nodiscard]] std::size_t own_slot() const override {
    return static_cast<std::size_t>(node_.rank()) * nodes() +
           static_cast<std::size_t>(rail_.rank());
  }

  void begin() override {
    const auto local = static_cast<std::size_t>(node_.rank());
    for (Piece& piece : pieces_) {
      encode(piece);
      piece.work = meter_.all_gather_in_place(rail_, slot(piece, local * nodes()),
                                              piece.image_bytes, piece.image_bytes, stream_);
    }
  }

  void complete() override {
    Piece* previous = nullptr;
    for (Piece& piece : pieces_) {
      meter_.wait(piece.work, stream_);
      const std::size_t bytes = nodes() * piece.image_bytes;
      piece.work = meter_.all_gather_in_place(node_, slot(piece, 0), bytes, bytes, stream_);
      if (previous != nullptr) collect(*previous);
      previous = &piece;
    }
    if (previous != nullptr) collect(*previous);
  }

  void collect(Piece& piece) {
    meter_.wait(piece.work, stream_);
    for (std::size_t local = 0; local < locals(); ++local) {
      decode(piece, local * nodes(), nodes(), local, locals());
    }
  }

  comm::Communicator& node_;
  comm::Communicator& rail_;
};

}  // namespace

const AllGatherAlgorithm all_gather_two_level = {
    .name = "two-level",
    .summary = "across nodes on rails, then inside the node, decoded once",
    .traits = {.hierarchical = true,
               .any_codec = true,
               .modelled = false,
               .deterministic = true,
               .to_everyone = true},
    .traffic = [](const Ranks& ranks, std::size_t part_bytes, std::size_t chunks) -> Traffic {
      const auto& [topology, world, node, rail] = ranks.levels;
      Traffic sum{bytes_to_others(rail, part_bytes), messages_to_others(rail, chunks)};
      sum.bytes += bytes_to_others(node, rail.size * part_bytes);
      sum.messages += messages_to_others(node, chunks);
      return sum;
    },
    .plan = [](const Context& context, const AllGatherPlan& plan) -> std::unique_ptr<AllGather> {
      return std::make_unique<TwoLevel>(context, plan);
    }};

}  // namespace zeropp::collective
