#include "lib/zero/plan/weight_image_memory.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "kernels/codec/codec.hpp"
#include "lib/base/error.hpp"

namespace zeropp::zero {

bool keeps_weight_images(const Options& options) {
  return options.keep_weight_images && options.gathers_device_masters();
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

void check_weight_images(const Options& options, const CodecTable& codecs,
                         const std::vector<UnitPartition>& units) {
  if (!keeps_weight_images(options) || weight_image_memory(options, codecs, units) > 0) return;
  const bool all_persist = std::ranges::all_of(units, &UnitPartition::persistent);
  throw Error(
      ExitCode::usage,
      fmt::format("zeropp.keep_weight_images would have no effect: {} leave it out",
                  all_persist ? fmt::format("every unit persists with zero_optimization."
                                            "stage3_param_persistence_threshold {}: lower that, or",
                                            options.persistence_threshold)
                              : "zeropp.codec_schedule gives every unit that does not persist the "
                                "weight codec none from its first step on: change that, or"));
}

}  // namespace zeropp::zero
