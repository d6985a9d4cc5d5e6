#include "lib/zero/plan/weight_image_memory.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "kernels/codec/codec.hpp"
#include "kernels/optim/update_image.hpp"
#include "lib/base/checked.hpp"
#include "lib/base/error.hpp"
#include "lib/collective/description.hpp"
#include "lib/zero/plan/collectives.hpp"

namespace zeropp::zero {

std::optional<optim::ImageFormat> image_format(const codec::CodecSpec& spec, Dtype rounded) {
  const bool narrow = spec.format == "int4";
  if ((!narrow && spec.format != "int8") || !spec.options.empty()) return std::nullopt;
  const std::size_t block = codec::Codec(spec, rounded).block();
  const auto [smallest, largest] = optim::kImageBlocks;
  if (!std::has_single_bit(block) || block < smallest || block > largest) return std::nullopt;
  return optim::ImageFormat{
      .bits = narrow ? 4U : 8U, .block = static_cast<std::uint32_t>(block), .rounded = rounded};
}

namespace {

/// Bytes of the tables for one chunk of an image: elements [begin, end) of the unit.
std::size_t table_bytes(const Unit& unit, std::size_t begin, std::size_t end) {
  std::size_t pieces = 0;
  for (const Tensor& tensor : unit.tensors) {
    const std::size_t first = std::max(begin, tensor.offset);
    const std::size_t last = std::min(end, tensor.offset + tensor.count());
    if (first >= last) continue;
    pieces += (last - 1 - begin) / optim::kImageTile - (first - begin) / optim::kImageTile + 1;
  }
  return pieces * sizeof(optim::UpdatePiece) +
         ceil_div(end - begin, optim::kImageTile) * sizeof(optim::ImageTile);
}

}  // namespace

bool keeps_weight_images(const Options& options) {
  return options.keep_weight_images && options.gathers_device_masters();
}

bool updates_encode_refreshes(const Options& options) {
  return options.gathers_device_masters() && !options.update_in_backward &&
         image_format(options.weight_codec, options.compute).has_value();
}

std::size_t weight_image_bytes(const Options& options, const CodecTable& codecs,
                               const std::vector<UnitPartition>& units, std::size_t unit) {
  if (!keeps_weight_images(options) || units[unit].persistent) return 0;
  std::size_t largest = 0;
  for (const codec::CodecSpec& spec : codecs.weights(unit)) {
    if (spec == codec::CodecSpec{}) continue;
    largest = std::max(largest, codec::Codec(spec, options.compute).wire_bytes(units[unit].shard));
  }
  return largest;
}

std::size_t weight_image_memory(const Options& options, const CodecTable& codecs,
                                const std::vector<UnitPartition>& units) {
  std::size_t bytes = 0;
  for (std::size_t u = 0; u < units.size(); ++u)
    bytes += weight_image_bytes(options, codecs, units, u);
  return bytes;
}

std::size_t weight_image_table_memory(const Options& options, const optim::Kept& kept,
                                      const CodecTable& codecs,
                                      const std::vector<Unit>& model_units,
                                      const std::vector<UnitPartition>& units,
                                      std::size_t shard_rank) {
  if (!optim::writes_images(kept.states)) return 0;
  std::size_t bytes = 0;
  for_each_weight_collective(options, codecs, units, [&](const Collective& made) {
    if (made.key.transfer != Transfer::weights) return;
    const UnitPartition& unit = units[made.key.index];
    const bool writes =
        unit.persistent ? updates_encode_refreshes(options) : keeps_weight_images(options);
    if (!writes || !image_format(made.gather().codec, options.compute)) return;
    for (const collective::Chunk& chunk : collective::image_chunks(made.algorithm, made.gather())) {
      const std::size_t begin = shard_rank * unit.shard + chunk.first;
      bytes += table_bytes(model_units[made.key.index], begin, begin + chunk.length);
    }
  });
  return bytes;
}

void check_weight_images(const Options& options, const CodecTable& codecs,
                         const std::vector<UnitPartition>& units) {
  if (!keeps_weight_images(options) || weight_image_memory(options, codecs, units) > 0) return;
  const bool all_persist = std::ranges::all_of(units, &UnitPartition::persistent);
  throw Error(
      ExitCode::usage,
      fmt::format("zeropp.keep_weight_images (--keep-weight-images) would have no effect: {} leave "
                  "it out",
                  all_persist ? fmt::format("every unit persists with zero_optimization."
                                            "stage3_param_persistence_threshold {} "
                                            "(--param-persistence-threshold): lower that, or",
                                            options.persistence_threshold)
                              : "zeropp.codec_schedule gives every unit that does not persist the "
                                "weight codec none from its first step on: change that, or"));
}

}  // namespace zeropp::zero
