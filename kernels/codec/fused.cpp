#include "kernels/codec/fused.hpp"

#include <algorithm>

#include "kernels/codec/fused_pairs.hpp"
#include "kernels/codec/host_scaled.hpp"

namespace zeropp::codec {
namespace {

template <class From, class To>
struct HostReduceEncode {
  static void run(const Params& from, const Params& to, ConstWireImages in, std::size_t images,
                  std::size_t slices, std::size_t padded, WireImages out, StreamHandle) {
    const Summands summands{in, images, wire_shape_of<From>(slices * padded, from.block)};
    const std::size_t from_block = from.block;
    const std::size_t block = to.block;
    const WireShape shape = wire_shape_of<To>(padded, block);
    for_block_ranges("decode_reduce_encode", slices, shape.blocks, block,
                     [=](std::size_t slice, std::size_t first_block, std::size_t last_block) {
                       for (std::size_t index = first_block; index < last_block; ++index) {
                         const std::size_t first = slice * padded + index * block;
                         const std::size_t count = std::min(block, padded - index * block);
                         float sum[kLargestBlock];
                         accumulate_range<From>(summands, from_block, first, first + count, true,
                                                sum);
                         std::fill(sum + count, sum + block, 0.0F);
                         encode_block<To>(sum, block, index, shape, out.data + slice * out.stride);
                       }
                     });
  }
};

}  // namespace

ReduceEncode::Fused find_fused(Backend backend, std::string_view from, std::string_view to) {
  return backend == Backend::host ? find_pair<HostReduceEncode>(from, to)
                                  : find_fused_cuda(from, to);
}

}  // namespace zeropp::codec
