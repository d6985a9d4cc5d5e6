// All-gather in one step: every rank sends its image to every other. On links that join all ranks
// with all (NVSwitch) no image waits for a neighbour. Images are decoded once.
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

 private:
  void begin() override {
    for (Piece& piece : pieces_) {
      encode(piece, rank());
      piece.work = share_piece(meter_, group_, slot(piece, 0), piece.image_bytes, stream_);
    }
  }

  void complete() override {
    for (Piece& piece : pieces_) {
      meter_.wait(piece.work, stream_);
      decode(piece, 0, size(), 0, 1);
    }
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
