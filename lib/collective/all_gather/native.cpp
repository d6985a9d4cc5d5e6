// The vendor's all-gather, uncompressed, in one chunk: its route and pipeline are its own, so bytes
// are modelled as a ring. A dense result of the memory dtype is gathered in place; any other goes
// through the workspace.
#include "lib/collective/all_gather_base.hpp"
#include "lib/collective/entries.hpp"

namespace zeropp::collective {

namespace {

class Native final : public AllGatherBase {
 public:
  Native(const Context& context, const AllGatherPlan& plan)
      : AllGatherBase(context, plan, all_gather_native) {}

 private:
  void begin() override {
    for (Piece& piece : pieces_) {
      if (in_place()) {
        const ConstView own = part_.dtype == full_.dtype ? part_ : ConstView(put_own_part());
        piece.work = meter_.transfer([&] {
          return group_.native_collective(
              {comm::NativeOp::all_gather, own, full_.part(0, size() * plan_.parts.count)},
              stream_);
        });
      } else {
        encode(piece);
        const std::size_t elements = piece.image_bytes / size_of(plan_.memory);
        const View images(slot(piece, 0), size() * elements, plan_.memory, full_.kind);
        const View own = images.part(rank() * elements, elements);
        piece.work = meter_.transfer([&] {
          return group_.native_collective({comm::NativeOp::all_gather, own, images}, stream_);
        });
      }
      meter_.count_wire(volume());
    }
  }

  void complete() override {
    for (Piece& piece : pieces_) {
      meter_.wait(piece.work, stream_);
      if (!in_place()) decode(piece, 0, size(), 0, 1);
    }
  }
};

}  // namespace

const AllGatherAlgorithm all_gather_native = {
    .name = "native",
    .summary = "the vendor's own, uncompressed; bytes are modelled",
    .traits = {.hierarchical = false,
               .any_codec = false,
               .modelled = true,
               .deterministic = true,
               .one_chunk = true,
               .in_place = true},
    .traffic = [](const Ranks& ranks, std::size_t part_bytes, std::size_t chunks) -> Traffic {
      return {bytes_along_ring(ranks.group, part_bytes), messages_along_ring(ranks.group, chunks)};
    },
    .plan = [](const Context& context, const AllGatherPlan& plan) -> std::unique_ptr<AllGather> {
      return std::make_unique<Native>(context, plan);
    }};

}  // namespace zeropp::collective
