// Kept wire images of weight shards (Options::keep_weight_images): which codecs updates can write
// them in (kernels/optim/update_image.hpp), and the memory of images and of what writes them, in
// closed form.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "kernels/codec/spec.hpp"
#include "kernels/optim/moments.hpp"
#include "kernels/optim/update_image.hpp"
#include "lib/zero/plan/codec_table.hpp"
#include "lib/zero/plan/options.hpp"
#include "lib/zero/plan/partition.hpp"
#include "lib/zero/plan/unit_model.hpp"

namespace zeropp::zero {

/// The form in which an update writes images of `spec`, of weights rounded to `rounded`; empty
/// where there is no kernel for the codec. `spec` is one that parse_codec() returns.
std::optional<optim::ImageFormat> image_format(const codec::CodecSpec& spec, Dtype rounded);

/// Names of their parts of a memory report.
inline constexpr const char* kWeightImages = "weight_images";
inline constexpr const char* kWeightImageTables = "weight_image_tables";

/// Whether gathers of weights start from kept images: with qwZ at stage 3, of shards whose fp32
/// master lies on the device. An exchange of weight differences starts from no image.
bool keeps_weight_images(const Options& options);

/// Whether updates may write what the refreshes of units that persist send: in a codec that they
/// can write, which such units never change, where both are in one schedule.
bool updates_encode_refreshes(const Options& options);

/// Bytes of the image that is kept of a rank's shard of unit `unit`: what the largest of the unit's
/// codecs makes of it. 0 for a unit that persists, and where no codec but `none` is.
std::size_t weight_image_bytes(const Options& options, const CodecTable& codecs,
                               const std::vector<UnitPartition>& units, std::size_t unit);

/// Sum of weight_image_bytes() over all units.
std::size_t weight_image_memory(const Options& options, const CodecTable& codecs,
                                const std::vector<UnitPartition>& units);

/// Bytes of the tables by which updates write images, kept ones and those that refreshes
/// of units that persist send (updates_encode_refreshes()), of the shard of the rank with
/// the number `shard_rank` among those that share a copy (optim::ImageTile, optim::UpdatePiece): a
/// tile for each optim::kImageTile weights, and a piece for each tensor in it, of every unit and
/// each of its codecs that updates can write. 0 where the optimizer has no such updates.
/// `model_units` and `units` are one list of units.
std::size_t weight_image_table_memory(const Options& options, const optim::Kept& kept,
                                      const CodecTable& codecs,
                                      const std::vector<Unit>& model_units,
                                      const std::vector<UnitPartition>& units,
                                      std::size_t shard_rank);

/// Throws Error(usage) where images are to be kept and there are none: every unit persists, or
/// takes no codec but `none`.
void check_weight_images(const Options& options, const CodecTable& codecs,
                         const std::vector<UnitPartition>& units);

}  // namespace zeropp::zero
