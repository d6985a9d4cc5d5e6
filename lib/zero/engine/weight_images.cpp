#include "lib/zero/engine/weight_images.hpp"

#include "lib/base/checked.hpp"
#include "lib/zero/plan/draw_keys.hpp"
#include "lib/zero/plan/weight_image_memory.hpp"

namespace zeropp::zero {

WeightImages::WeightImages(const EngineContext& context) : context_(context) {
  for (std::size_t u = 0; u < context.units().size(); ++u) {
    const std::size_t bytes =
        weight_image_bytes(context.options, context.plan.codecs, context.units(), u);
    kept_.push_back({Buffer(bytes, context.device.memory)});
  }
}

void WeightImages::set_written(std::size_t unit, std::uint64_t version) {
  ++context_.recorder.counters["weight_images_by_updates"];
  set_kept(unit, version);
}

void WeightImages::set_kept(std::size_t unit, std::uint64_t version) {
  kept_[unit].version = version;
  kept_[unit].codec = codec_of(unit);
}

bool WeightImages::has(std::size_t unit) const {
  return kept_[unit].memory.bytes() > 0 &&
         context_.plan.codecs.weights(unit)[codec_of(unit)] != codec::CodecSpec{};
}

void WeightImages::encode(std::size_t unit, ConstView shard, std::uint64_t version,
                          StreamHandle on) {
  if (!has(unit)) return;
  context_.collectives.weights.whole(unit).encode_image(
      shard, kept_[unit].memory.span(), on, weight_draws(context_.options.seed, version, unit));
  ++context_.recorder.counters["weight_images_encoded"];
  set_kept(unit, version);
}

std::span<const std::byte> WeightImages::image(std::size_t unit, ConstView shard,
                                               std::uint64_t version, StreamHandle on) {
  const Kept& kept = kept_[unit];
  if (kept.version != version || kept.codec != codec_of(unit)) encode(unit, shard, version, on);
  return kept.memory.span();
}

std::size_t WeightImages::bytes() const {
  std::size_t total = 0;
  for (const Kept& each : kept_) total += each.memory.bytes();
  return total;
}

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
  for (std::size_t i = 0; i < codecs.size(); ++i) {
    const auto format = image_format(codecs[i], context_.options.compute);
    if (!format) continue;
    const collective::AllGather& gather = context_.collectives.weights.whole(unit, i);
    const codec::Codec codec(codecs[i], context_.options.compute);
    images_[unit][i] = shard.add_image(context_.model.units()[unit], unit, arrays, *format,
                                       ranges_of((gather.*chunks)(), codec, memory));
  }
}

}  // namespace zeropp::zero
