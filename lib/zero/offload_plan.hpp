// What of the optimizer lies in the memory of the host, and in which pieces it goes over the host's
// links. Pure functions: the engine runs it, a planner asks it.
#pragma once

#include <cstddef>
#include <vector>

#include "lib/zero/options.hpp"
#include "lib/zero/partition.hpp"

namespace zeropp::zero {

/// Of `count` elements of a unit that a rank updates, how many the host does: the first ones, ratio
/// of them, rounded up to 256 bytes of fp32. 0 without offload.
std::size_t offloaded_elements(std::size_t count, const OffloadOptimizerOptions& options);

/// Where all weights lie on the host: bytes on the device of a unit's own shard in the compute
/// dtype, from where it is gathered; a multiple of 256. Else 0.
std::size_t upload_bytes(const UnitPartition& unit, const Options& options);

/// Consecutive elements of what a rank updates of a unit, which travel together.
struct OffloadPiece {
  std::size_t unit = 0;
  std::size_t range = 0;  ///< which of the unit's pieces
  Extent extent;
};

/// In the order in which the units are updated. `counts`, by unit: elements that a rank updates.
std::vector<OffloadPiece> offload_pieces(const std::vector<std::size_t>& counts,
                                         const OffloadOptimizerOptions& options);

/// Memory that pieces travel through, in turn.
struct OffloadStaging {
  std::size_t buffers = 0;   ///< as many as pieces, if those are fewer
  std::size_t elements = 0;  ///< of the longest piece

  /// `weights`: the dtype of those that travel back; fp32 ones come from the master itself, and
  /// those that stay on the host are made where they stay.
  [[nodiscard]] std::size_t bytes(Dtype weights, bool weights_stay) const {
    const bool beside = weights != Dtype::fp32 && !weights_stay;
    return buffers * elements * (sizeof(float) + (beside ? size_of(weights) : 0));
  }
};
OffloadStaging offload_staging(const std::vector<OffloadPiece>& pieces,
                               const OffloadOptimizerOptions& options);

}  // namespace zeropp::zero
