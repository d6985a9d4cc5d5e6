// All-gather in one step: every rank sends its image to every other. On links that join all ranks
// with all (NVSwitch) no image waits for a neighbour. Values that are sent as they lie in memory
// are gathered in place; any other image goes through the workspace.
#include "lib/collective/entries.hpp"
#include "lib/collective/one_step_gather.hpp"

namespace zeropp::collective {

namespace {

class Direct final : public OneStepGather {
 public:
  Direct(const Context& context, const AllGatherPlan& plan)
      : OneStepGather(context, plan, all_gather_direct) {}

 private:
  void begin() override {
    if (!in_place()) return OneStepGather::begin();
    put_own_part();
    const std::size_t element = size_of(full_.dtype);
    for (Piece& piece : pieces_) {
      piece.work = meter_.all_gather_in_place(
          group_, static_cast<std::byte*>(full_.data) + piece.chunk.first * element,
          plan_.parts.stride * element, piece.chunk.length * element, stream_);
    }
  }
  void complete() override {
    if (!in_place()) return OneStepGather::complete();
    for (Piece& piece : pieces_) meter_.wait(piece.work, stream_);
  }
  void start_transfer(Piece& piece) override {
    piece.work = meter_.all_gather_in_place(group_, slot(piece, 0), piece.image_bytes,
                                            piece.image_bytes, stream_);
  }
};

}  // namespace

const AllGatherAlgorithm all_gather_direct = {
    .name = "direct",
    .summary = "one step, every rank to every other",
    .traits = {.hierarchical = false,
               .any_codec = true,
               .modelled = false,
               .deterministic = true,
               .to_everyone = true,
               .in_place = true},
    .traffic = [](const Ranks& ranks, std::size_t part_bytes, std::size_t chunks) -> Traffic {
      return {bytes_to_others(ranks.group, part_bytes), messages_to_others(ranks.group, chunks)};
    },
    .plan = [](const Context& context, const AllGatherPlan& plan) -> std::unique_ptr<AllGather> {
      return std::make_unique<Direct>(context, plan);
    }};

}  // namespace zeropp::collective
