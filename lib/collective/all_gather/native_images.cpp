// The vendor's all-gather of encoded images, chunk after chunk: its route and its rate, with fewer
// bytes. They are modelled as a ring. Chunks are encoded and decoded while others travel.
#include "lib/collective/entries.hpp"
#include "lib/collective/one_step_gather.hpp"

namespace zeropp::collective {

namespace {

class NativeImages final : public OneStepGather {
 public:
  NativeImages(const Context& context, const AllGatherPlan& plan)
      : OneStepGather(context, plan, all_gather_native_images), shape_(context.group.shape()) {}

 private:
  /// An image fills whole 16-byte units. For the vendor it is values of the widest type, which keep
  /// their counts small; it only copies them.
  void start_transfer(Piece& piece) override {
    const std::size_t elements = piece.image_bytes / size_of(Dtype::fp32);
    const View images(slot(piece, 0), size() * elements, Dtype::fp32, full_.kind);
    const View own = images.part(rank() * elements, elements);
    piece.work = meter_.transfer([&] {
      return group_.native_collective({comm::NativeOp::all_gather, own, images}, stream_);
    });
    meter_.count_wire(bytes_along_ring(shape_, piece.image_bytes));
  }

  comm::GroupShape shape_;
};

}  // namespace

const AllGatherAlgorithm all_gather_native_images = {
    .name = "native-images",
    .summary = "the vendor's own, of encoded images in chunks; bytes are modelled",
    .traits = {.hierarchical = false, .any_codec = true, .modelled = true, .deterministic = true},
    .traffic = [](const Ranks& ranks, std::size_t part_bytes, std::size_t chunks) -> Traffic {
      return {bytes_along_ring(ranks.group, part_bytes), messages_along_ring(ranks.group, chunks)};
    },
    .plan = [](const Context& context, const AllGatherPlan& plan) -> std::unique_ptr<AllGather> {
      return std::make_unique<NativeImages>(context, plan);
    }};

}  // namespace zeropp::collective
