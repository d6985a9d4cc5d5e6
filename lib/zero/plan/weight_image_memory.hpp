// Memory of the kept wire images of weight shards (Options::keep_weight_images), in closed form.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "lib/zero/plan/codec_table.hpp"
#include "lib/zero/plan/options.hpp"
#include "lib/zero/plan/partition.hpp"

namespace zeropp::zero {

/// Name of their part of a memory report.
inline constexpr const char* kWeightImages = "weight_images";

/// Whether gathers of weights start from kept images: with qwZ at stage 3, of shards whose fp32
/// master lies on the device. An exchange of weight differences starts from no image.
bool keeps_weight_images(const Options& options);

/// Bytes of the image that is kept of a rank's shard of unit `unit`: what the largest of the unit's
/// codecs makes of it. 0 for a unit that persists, and where no codec but `none` is.
std::size_t weight_image_bytes(const Options& options, const CodecTable& codecs,
                               const std::vector<UnitPartition>& units, std::size_t unit);

/// Sum of weight_image_bytes() over all units.
std::size_t weight_image_memory(const Options& options, const CodecTable& codecs,
                                const std::vector<UnitPartition>& units);

/// Throws Error(usage) where images are to be kept and there are none: every unit persists, or
/// takes no codec but `none`.
void check_weight_images(const Options& options, const CodecTable& codecs,
                         const std::vector<UnitPartition>& units);

}  // namespace zeropp::zero
