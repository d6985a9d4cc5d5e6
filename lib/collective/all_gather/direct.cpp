// All-gather in one step: every rank sends its image to every other. On links that join all ranks
// with all (NVSwitch) no image waits for a neighbour.
#include "lib/collective/entries.hpp"
#include "lib/collective/one_step_gather.hpp"
#include "lib/collective/transfer.hpp"

namespace zeropp::collective {

namespace {

class Direct final : public OneStepGather {
 public:
  Direct(const Context& context, const AllGatherPlan& plan)
      : OneStepGather(context, plan, all_gather_direct, plan.depth) {}

  [[nodiscard]] comm::Bytes volume() const override {
    return bytes_to_others(group_, part_bytes());
  }
  [[nodiscard]] Messages messages() const override {
    return messages_to_others(group_, pieces_.size());
  }

 private:
  void travel(Piece& piece) override {
    piece.work = share_piece(meter_, group_, slot(piece, 0), piece.image_bytes, stream_);
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
