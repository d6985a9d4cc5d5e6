// What a rank's engine keeps of each unit from step to step, besides the optimizer's arrays:
// buffers of zeros, by unit, empty where the stage or the configuration keeps none (ZeRO, arXiv
// 1910.02054, section 5). An empty list: none of any unit.
#pragma once

#include <vector>

#include "lib/device/buffer.hpp"
#include "lib/device/device.hpp"
#include "lib/zero/options.hpp"
#include "lib/zero/partition.hpp"

namespace zeropp::zero {

/// The own shards of the weights that are gathered, in the compute dtype: beside the master where
/// it is of another dtype, or elsewhere. Empty of units whose weights lie in a file.
std::vector<Buffer> make_compute_shards(const Options& options,
                                        const std::vector<UnitPartition>& units,
                                        const Device& device);

/// Whole weights, in the compute dtype, of the units that are not gathered for each use.
std::vector<Buffer> make_resident_weights(const Options& options,
                                          const std::vector<UnitPartition>& units,
                                          const Device& device);

/// Whole gradients in fp32, where they are not sharded (stages 0 and 1).
std::vector<Buffer> make_local_gradients(const Options& options,
                                         const std::vector<UnitPartition>& units,
                                         const Device& device);

/// The own shards of the gradients in fp32, from stage 1 on.
std::vector<Buffer> make_gradient_shards(const Options& options,
                                         const std::vector<UnitPartition>& units,
                                         const Device& device);

}  // namespace zeropp::zero
