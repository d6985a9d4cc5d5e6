#include "lib/zero/engine/image_updates.hpp"

#include "lib/base/checked.hpp"
#include "lib/zero/plan/image_format.hpp"

namespace zeropp::zero {

namespace {

/// Where an update writes the chunks of an image in `memory`.
std::vector<ImageRange> ranges_of(const std::vector<collective::ImageChunk>& chunks,
                                  const codec::Codec& codec, std::byte* memory) {
  std::vector<ImageRange> ranges;
  for (const collective::ImageChunk& chunk : chunks) {
    const std::size_t scales = codec.scale_offset(chunk.length);
    const std::size_t blocks = ceil_div(chunk.length, codec.block());
    ranges.push_back({.elements = {chunk.first, chunk.length},
                      .codes = memory + chunk.offset,
                      .scales = memory + chunk.offset + scales,
                      .padding = chunk.bytes - scales - blocks * codec.scale_bytes()});
  }
  return ranges;
}

}  // namespace

ImageUpdates::ImageUpdates(const EngineContext& context) : context_(context) {
  for (std::size_t u = 0; u < context.units().size(); ++u)
    images_.emplace_back(context.plan.codecs.weights(u).size());
}

void ImageUpdates::prepare(OptimizerShard& shard, std::size_t unit, const UnitArrays& arrays,
                           std::byte* memory, Chunks chunks) {
  if (!shard.encodes()) return;
  const std::vector<codec::CodecSpec>& codecs = context_.plan.codecs.weights(unit);
  // The plans of a unit's phases differ in their label only.
  const Phase phase = gather_phases(context_.options, context_.units()[unit]).front();
  for (std::size_t i = 0; i < codecs.size(); ++i) {
    const auto format = image_format(codecs[i], context_.options.compute);
    if (!format) continue;
    const collective::AllGather& gather = context_.weight_gather.global(unit, phase, i);
    const codec::Codec codec(codecs[i], context_.options.compute);
    images_[unit][i] = shard.add_image(context_.model.units()[unit], unit, arrays, *format,
                                       ranges_of((gather.*chunks)(), codec, memory));
  }
}

}  // namespace zeropp::zero
