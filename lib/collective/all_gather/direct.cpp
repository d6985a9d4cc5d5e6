// All-gather in one step: every rank sends its image to every other. On links that join all ranks
// with all (NVSwitch) no image waits for a neighbour. Images are decoded once, the own one while
// the others are on their way.
#include "lib/collective/all_gather_base.hpp"
#include "lib/collective/entries.hpp"
#include "lib/collective/transfer.hpp"

namespace zeropp::collective {

namespace {

class Direct final : public AllGatherBase {
 public:
  Direct(const Context& context, const AllGatherPlan& plan)
      : AllGatherBase(context, plan, all_gather_direct, plan.depth) {}

  [[nodiscard]] comm::Bytes volume() const override {
    return bytes_to_others(group_, part_bytes());
  }
  [[nodiscard]] Messages messages() const override {
    return messages_to_others(group_, pieces_.size());
  }

 private:
  void begin() override {
    for (Piece& piece : pieces_) {
      encode(piece, rank());
      piece.work = share_piece(meter_, group_, slot(piece, 0), piece.image_bytes, stream_);
    }
    // While others travel, and after every encoding: the result may lie over the part.
    for (const Piece& piece : pieces_) decode_parts(piece, rank(), 1);
  }

  void complete() override {
    for (Piece& piece : pieces_) {
      meter_.wait(piece.work, stream_);
      decode_parts(piece, 0, rank());
      decode_parts(piece, rank() + 1, size() - rank() - 1);
    }
  }

  /// Of ranks first, first + 1, ...
  void decode_parts(const Piece& piece, std::size_t first, std::size_t count) {
    if (count > 0) decode(piece, first, count, first, 1);
  }
};

}  // namespace

const AllGatherAlgorithm all_gather_direct = {
    .name = "direct",
    .summary = "one step, every rank to every other",
    .hierarchical = false,
    .any_codec = true,
    .modelled = false,
    .deterministic = true,
    .plan = [](const Context& context, const AllGatherPlan& plan) -> std::unique_ptr<AllGather> {
      return std::make_unique<Direct>(context, plan);
    }};

}  // namespace zeropp::collective
