// All-gather as a ring in rank order: in step s every rank passes on the image that it received in
// the step before. Images stay encoded on their way and are decoded once.
#include "lib/collective/all_gather_base.hpp"
#include "lib/collective/entries.hpp"

namespace zeropp::collective {

namespace {

class Flat final : public AllGatherBase {
 public:
  Flat(const Context& context, const AllGatherPlan& plan)
      : AllGatherBase(context, plan, all_gather_flat) {}

 private:
  void begin() override {
    for (Piece& piece : pieces_) {
      encode(piece);
      if (size() > 1) step(piece, 0);
    }
  }

  void complete() override {
    for (std::size_t s = 0; s + 1 < size(); ++s) {
      for (Piece& piece : pieces_) {
        meter_.wait(piece.work, stream_);
        if (s + 2 < size()) {
          step(piece, s + 1);
        } else {
          decode(piece, 0, size(), 0, 1);
        }
      }
    }
    if (size() == 1) {
      for (const Piece& piece : pieces_) decode(piece, 0, 1, 0, 1);
    }
  }

  void step(Piece& piece, std::size_t s) {
    piece.work = meter_.ring_step(group_, slot(piece, (rank() + size() - s) % size()),
                                  slot(piece, (rank() + size() - s - 1) % size()),
                                  piece.image_bytes, stream_);
  }
};

}  // namespace

const AllGatherAlgorithm all_gather_flat = {
    .name = "flat",
    .summary = "ring in rank order, images passed on encoded",
    .traits = {.hierarchical = false, .any_codec = true, .modelled = false, .deterministic = true},
    .traffic = [](const Ranks& ranks, std::size_t part_bytes, std::size_t chunks) -> Traffic {
      return {bytes_along_ring(ranks.group, part_bytes), messages_along_ring(ranks.group, chunks)};
    },
    .plan = [](const Context& context, const AllGatherPlan& plan) -> std::unique_ptr<AllGather> {
      return std::make_unique<Flat>(context, plan);
    }};

}  // namespace zeropp::collective
