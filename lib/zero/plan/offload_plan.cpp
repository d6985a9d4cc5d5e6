#include "lib/zero/plan/offload_plan.hpp"

#include <algorithm>

#include "kernels/optim/optim_ops.hpp"
#include "lib/base/async_file.hpp"
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

bool gathers_master(Dtype compute, const OffloadOptimizerOptions& optimizer,
                    const OffloadParamOptions& param) {
  return !optimizer.enabled() ||
         (compute == Dtype::fp32 && optimizer.device == OffloadDevice::cpu &&
          param.device == OffloadDevice::cpu);
}

std::vector<bool> weights_on_file(const std::vector<UnitPartition>& units,
                                  const OffloadParamOptions& options) {
  std::vector<bool> on_file;
  std::size_t elements = 0;
  for (const UnitPartition& unit : units) {
    elements += unit.shard;
    on_file.push_back(options.on_file() && elements > options.max_in_cpu);
  }
  return on_file;
}

std::vector<OffloadPiece> offload_pieces(const std::vector<std::size_t>& counts,
                                         const OffloadOptimizerOptions& options) {
  const std::size_t longest = std::min(options.piece_size, options.sub_group_size);
  std::vector<OffloadPiece> pieces;
  for (std::size_t unit = 0; unit < counts.size(); ++unit) {
    std::size_t range = 0;
    optim::for_each_piece(offloaded_elements(counts[unit], options), longest,
                          [&](std::size_t first, std::size_t elements) {
                            pieces.push_back({unit, range++, {first, elements}});
                          });
  }
  return pieces;
}

std::size_t file_bytes(std::size_t count, std::size_t element_bytes) {
  return round_up(count * element_bytes, AsyncFile::kPage);
}

std::size_t moment_file_bytes(const optim::Kept& kept, std::size_t count) {
  return round_up(kept.bytes_of_one(count), AsyncFile::kPage);
}

std::size_t record_bytes(const optim::Kept& kept, std::size_t count) {
  return file_bytes(count, sizeof(float)) + kept.states * moment_file_bytes(kept, count);
}

OffloadStaging offload_staging(const std::vector<OffloadPiece>& pieces, Dtype compute,
                               const optim::Kept& kept, const std::vector<bool>& on_file,
                               const OffloadOptimizerOptions& optimizer,
                               const OffloadParamOptions& param) {
  OffloadStaging staging{.buffers = std::min(optimizer.buffer_count, pieces.size())};
  for (const OffloadPiece& piece : pieces) {
    staging.elements = std::max(staging.elements, piece.extent.count);
  }
  staging.gradients = staging.elements * sizeof(float);
  if (optimizer.on_file()) {
    staging.arrays = record_bytes(kept, staging.elements);
  }
  if (std::ranges::find(on_file, true) != on_file.end()) {
    staging.weights = file_bytes(staging.elements, size_of(compute));
  } else if (compute != Dtype::fp32 && !param.enabled()) {
    staging.weights = staging.elements * size_of(compute);
  }
  return staging;
}

FileLayout optimizer_layout(const std::vector<OffloadPiece>& pieces, const optim::Kept& kept) {
  FileLayout layout;
  for (const OffloadPiece& piece : pieces) {
    layout.begin.push_back(layout.bytes);
    layout.bytes += record_bytes(kept, piece.extent.count);
  }
  return layout;
}

FileLayout weights_layout(const std::vector<OffloadPiece>& pieces, const std::vector<bool>& on_file,
                          Dtype compute) {
  FileLayout layout;
  for (const OffloadPiece& piece : pieces) {
    layout.begin.push_back(layout.bytes);
    if (on_file[piece.unit]) layout.bytes += file_bytes(piece.extent.count, size_of(compute));
  }
  return layout;
}

WeightBuffers weight_buffers(const std::vector<OffloadPiece>& pieces,
                             const std::vector<bool>& on_file, Dtype compute,
                             const OffloadParamOptions& options) {
  std::vector<std::size_t> bytes(on_file.size());
  for (const OffloadPiece& piece : pieces) {
    if (on_file[piece.unit]) bytes[piece.unit] += file_bytes(piece.extent.count, size_of(compute));
  }
  const auto units = static_cast<std::size_t>(std::ranges::count(on_file, true));
  const std::size_t longest = bytes.empty() ? 0 : *std::ranges::max_element(bytes);
  return {std::min(options.buffer_count, units), longest};
}

std::size_t pieces_prefetched(std::size_t buffers) { return buffers / 2; }

}  // namespace zeropp::zero
