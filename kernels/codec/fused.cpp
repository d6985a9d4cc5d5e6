#include "kernels/codec/fused.hpp"

#include "kernels/codec/formats/int4.hpp"
#include "kernels/codec/formats/int8.hpp"
#include "kernels/codec/host_scaled.hpp"

namespace zeropp::codec {
namespace {

template <ScaledFormat From, ScaledFormat To>
void reduce_encode(const Params& from, const Params& to, ConstWireImages in, std::size_t images,
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

struct Pair {
  std::string_view from;
  std::string_view to;
  ReduceEncode::Fused run;
};

template <ScaledFormat From, ScaledFormat To>
constexpr Pair pair() {
  return {From::name, To::name, reduce_encode<From, To>};
}

constexpr Pair kPairs[] = {
    pair<format::int8::Format, format::int8::Format>(),
    pair<format::int8::Format, format::int4::Format>(),
    pair<format::int4::Format, format::int4::Format>(),
};

}  // namespace

ReduceEncode::Fused find_fused(std::string_view from, std::string_view to) {
  for (const Pair& pair : kPairs) {
    if (pair.from == from && pair.to == to) return pair.run;
  }
  return nullptr;
}

}  // namespace zeropp::codec
