// The vendor's reduce-scatter, uncompressed, in one piece: order and precision of the sum, route
// and pipeline are its own, so bytes are modelled as a ring. Parts that are strided or of another
// dtype than the plain one are packed first; a 16-bit sum is widened to fp32 at the end.
#include <memory>

#include "lib/collective/entries.hpp"
#include "lib/collective/reduce_scatter_base.hpp"
#include "lib/collective/transfer.hpp"

namespace zeropp::collective {

namespace {

class Native final : public ReduceScatterBase {
 public:
  Native(const Context& context, const ReduceScatterPlan& plan, codec::Codec identity)
      : ReduceScatterBase(context, plan, reduce_scatter_native, identity.name(), "",
                          identity.block(), /*depth=*/1),
        identity_(std::move(identity)),
        part_bytes_(identity_.wire_bytes(plan.parts.count)),
        packed_(space_.reserve(as_is() ? 0 : size() * part_bytes_)),
        reduced_(space_.reserve(direct() ? 0 : part_bytes_)) {}

  [[nodiscard]] comm::Bytes volume() const override {
    return bytes_along_ring(group_, part_bytes_);
  }
  [[nodiscard]] Messages messages() const override {
    return messages_along_ring(group_, chunks_.size());
  }

 private:
  /// The vendor can take the input as it lies.
  [[nodiscard]] bool as_is() const {
    return plan_.parts.stride == plan_.parts.count && plan_.memory == plan_.plain;
  }
  /// The vendor's result is the result.
  [[nodiscard]] bool direct() const { return as_is() && plan_.plain == Dtype::fp32; }

  void begin() override {
    for (const Chunk& chunk : chunks_) {  // the whole part, or nothing
      const std::size_t elements = as_is() ? chunk.length : part_bytes_ / size_of(plan_.plain);
      ConstView in = full_.part(0, size() * elements);
      if (!as_is()) {
        const codec::Layout layout{.images = size(),
                                   .image_stride = plan_.parts.stride,
                                   .slices = 1,
                                   .slice_stride = 0,
                                   .length = chunk.length,
                                   .padded = chunk.length};
        meter_.kernels([&] {
          identity_.encode(slices(chunk), layout, {at(packed_), part_bytes_}, stream_);
        });
        in = {at(packed_), size() * elements, plan_.plain, full_.kind};
      }
      const View out = direct() ? sum_ : View(at(reduced_), elements, plan_.plain, full_.kind);
      work_ = meter_.transfer([&] { return group_.native_reduce_scatter(in, out, stream_); });
      meter_.count_wire(volume());
    }
  }

  void complete() override {
    for (const Chunk& chunk : chunks_) {
      meter_.wait(work_, stream_);
      if (direct()) continue;
      meter_.kernels([&] {
        identity_.decode({at(reduced_), part_bytes_}, codec::Layout::contiguous(chunk.length), sum_,
                         stream_);
      });
    }
  }

  codec::Codec identity_;
  std::size_t part_bytes_;
  std::size_t packed_;
  std::size_t reduced_;
  std::unique_ptr<comm::Work> work_;
};

}  // namespace

const ReduceScatterAlgorithm reduce_scatter_native = {
    .name = "native",
    .summary = "the vendor's own, uncompressed; bytes are modelled",
    .traits = {.hierarchical = false,
               .any_codec = false,
               .modelled = true,
               .deterministic = false,
               .uncut = true},
    // The vendor adds in the type that travels: what leaves its range becomes infinite.
    .ranks_in_sums = [](const comm::Topology&) { return std::size_t{1}; },
    .plan = [](const Context& context,
               const ReduceScatterPlan& plan) -> std::unique_ptr<ReduceScatter> {
      return std::make_unique<Native>(
          context, plan, codec::Codec(plan.codec_first, plan.plain, context.device.backend));
    }};

}  // namespace zeropp::collective
