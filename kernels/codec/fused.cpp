#include "kernels/codec/fused.hpp"

#include "kernels/codec/fused_pairs.hpp"
#include "kernels/codec/host_scaled.hpp"

namespace zeropp::codec {
namespace {

template <class From, class To>
struct HostReduceEncode {
  static void run(const Params& from, const Params& to, ConstWireImages in, std::size_t images,
                  std::size_t slices, std::size_t padded, WireImages out, StreamHandle) {
    const std::size_t from_block = from.block;
    const std::size_t block = to.block;
    const WireShape from_shape = wire_shape_of<From>(slices * padded, from_block);
    const WireShape shape = wire_shape_of<To>(padded, block);
    host_for("decode_reduce_encode", slices * shape.blocks, [=](std::size_t task) {
      const std::size_t slice = task / shape.blocks;
      const std::size_t index = task - slice * shape.blocks;
      const std::size_t first = index * block;
      const std::size_t count = std::min(block, padded - first);
      float sum[kLargestBlock];
      accumulate_range<From>(in, images, from_shape, from_block, slice * padded + first,
                             slice * padded + first + count, true, sum);
      std::fill(sum + count, sum + block, 0.0F);
      encode_block_at<To>(sum, block, index, shape, out.data + slice * out.stride);
    });
  }
};

}  // namespace

ReduceEncode::Fused find_fused(Backend backend, std::string_view from, std::string_view to) {
  return backend == Backend::host ? find_pair<HostReduceEncode>(from, to)
                                  : find_fused_cuda(from, to);
}

}  // namespace zeropp::codec
