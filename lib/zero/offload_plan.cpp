#include "lib/zero/offload_plan.hpp"

#include <algorithm>

#include "kernels/optim/optim_ops.hpp"
#include "lib/base/checked.hpp"

namespace zeropp::zero {

std::size_t offloaded_elements(std::size_t count, const OffloadOptimizerOptions& options) {
  constexpr std::size_t kAligned = 64;
  if (!options.enabled()) return 0;
  const auto share = static_cast<std::size_t>(options.ratio * static_cast<double>(count));
  return std::min(count, round_up(share, kAligned));
}

std::size_t upload_bytes(const UnitPartition& unit, const Options& options) {
  constexpr std::size_t kAligned = 256;
  return options.offload_param.enabled() ? round_up(unit.shard * size_of(options.compute), kAligned)
                                         : 0;
}

std::vector<OffloadPiece> offload_pieces(const std::vector<std::size_t>& counts,
                                         const OffloadOptimizerOptions& options) {
  std::vector<OffloadPiece> pieces;
  for (std::size_t unit = 0; unit < counts.size(); ++unit) {
    std::size_t range = 0;
    optim::for_each_piece(offloaded_elements(counts[unit], options), options.piece_size,
                          [&](std::size_t first, std::size_t elements) {
                            pieces.push_back({unit, range++, {first, elements}});
                          });
  }
  return pieces;
}

OffloadStaging offload_staging(const std::vector<OffloadPiece>& pieces,
                               const OffloadOptimizerOptions& options) {
  OffloadStaging staging{.buffers = std::min(options.buffer_count, pieces.size())};
  for (const OffloadPiece& piece : pieces) {
    staging.elements = std::max(staging.elements, piece.extent.count);
  }
  return staging;
}

}  // namespace zeropp::zero
