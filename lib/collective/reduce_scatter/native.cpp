// The vendor's reduce-scatter, uncompressed, in one chunk: order and precision of the sum, route
// and pipeline are its own, so bytes are modelled as a ring. Parts that are strided or of another
// dtype than the plain one are packed first; a 16-bit sum is widened to fp32 at the end.
#include <memory>

#include "lib/collective/entries.hpp"
#include "lib/collective/reduce_scatter_base.hpp"

namespace zeropp::collective {

namespace {

/// Workspace for the vendor's input and output, where those are not the caller's memory.
struct NativeLayout {
  NativeLayout(const ReduceScatterPlan& plan, const codec::Codec& identity, std::size_t ranks)
      : as_is(plan.parts.stride == plan.parts.count && plan.memory == plan.plain),
        direct(as_is && plan.plain == Dtype::fp32),
        part_bytes(identity.wire_bytes(plan.parts.count)) {
    WorkspacePlan space;
    packed = space.reserve(as_is ? 0 : ranks * part_bytes);
    reduced = space.reserve(direct ? 0 : part_bytes);
    workspace = space.bytes();
  }

  bool as_is;   ///< the vendor can take the input as it lies
  bool direct;  ///< the vendor's result is the result
  std::size_t part_bytes;
  std::size_t packed;
  std::size_t reduced;
  std::size_t workspace;
};

class Native final : public ReduceScatterBase {
 public:
  Native(const Context& context, const ReduceScatterPlan& plan, codec::Codec identity)
      : ReduceScatterBase(context, plan, reduce_scatter_native, identity.block()),
        identity_(std::move(identity)),
        layout_(plan, identity_, size()) {}

 private:
  void begin() override {
    for (const Chunk& chunk : chunks_) {  // the whole part, or nothing
      const std::size_t elements =
          layout_.as_is ? chunk.length : layout_.part_bytes / size_of(plan_.plain);
      ConstView in = full_.part(0, size() * elements);
      if (!layout_.as_is) {
        const codec::Layout layout{.images = size(),
                                   .image_stride = plan_.parts.stride,
                                   .slices = 1,
                                   .slice_stride = 0,
                                   .length = chunk.length,
                                   .padded = chunk.length};
        meter_.kernels([&] {
          identity_.encode(slices(chunk), layout, {at(layout_.packed), layout_.part_bytes},
                           stream_);
        });
        in = {at(layout_.packed), size() * elements, plan_.plain, full_.kind};
      }
      const View out =
          layout_.direct ? sum_ : View(at(layout_.reduced), elements, plan_.plain, full_.kind);
      work_ = meter_.transfer([&] {
        return group_.native_collective({comm::NativeOp::reduce_scatter, in, out}, stream_);
      });
      meter_.count_wire(volume());
    }
  }

  void complete() override {
    for (const Chunk& chunk : chunks_) {
      meter_.wait(work_, stream_);
      if (layout_.direct) continue;
      meter_.kernels([&] {
        identity_.decode({at(layout_.reduced), layout_.part_bytes},
                         codec::Layout::contiguous(chunk.length), sum_, stream_);
      });
    }
  }

  codec::Codec identity_;
  NativeLayout layout_;
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
               .one_chunk = true},
    // The vendor adds in the type that travels: what leaves its range becomes infinite.
    .ranks_in_sums = [](const comm::Topology&) { return std::size_t{1}; },
    .describe = [](const Ranks& ranks, const ReduceScatterPlan& plan) -> Description {
      const codec::Codec identity(plan.codec_first, plan.plain);
      const ReduceChunks chunks(plan, reduce_scatter_native.traits, identity.block());
      const NativeLayout layout(plan, identity, ranks.group.size);
      return described(reduce_scatter_native, ranks, plan,
                       {bytes_along_ring(ranks.group, layout.part_bytes),
                        messages_along_ring(ranks.group, chunks.size())},
                       layout.workspace, identity.name());
    },
    .plan = [](const Context& context,
               const ReduceScatterPlan& plan) -> std::unique_ptr<ReduceScatter> {
      return std::make_unique<Native>(
          context, plan, codec::Codec(plan.codec_first, plan.plain, context.device.backend));
    }};

}  // namespace zeropp::collective
