// Plan of offloading: which part of the optimizer and the weights lies in the memory of the host or
// in files, and in which pieces it travels. Pure functions: the engine runs it, a planner asks it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/optim/moments.hpp"
#include "lib/zero/plan/options.hpp"
#include "lib/zero/plan/partition.hpp"

namespace zeropp::zero {

/// Number of elements that the host updates, of the `count` elements of a unit that a rank updates:
/// the first ones, ratio of them, rounded up to 256 bytes of fp32. 0 without offload.
std::size_t offloaded_elements(std::size_t count, const OffloadOptimizerOptions& options);

/// Bytes on the device of a unit's own shard in the compute dtype, from where it is gathered, where
/// all weights lie on the host or in files; a multiple of 256. 0 where they do not.
std::size_t upload_bytes(const UnitPartition& unit, const Options& options);

/// Whether weights are gathered from the master itself: without offload, rounded on the way, or in
/// fp32 from the host.
bool gathers_master(Dtype compute, const OffloadOptimizerOptions& optimizer,
                    const OffloadParamOptions& param);

/// Whether the weights of each unit are gathered from a file: those of all but the first units,
/// whose shards together have no more than max_in_cpu elements.
std::vector<bool> weights_on_file(const std::vector<UnitPartition>& units,
                                  const OffloadParamOptions& options);

/// Consecutive elements of what a rank updates of a unit, which travel together.
struct OffloadPiece {
  std::size_t unit = 0;
  std::size_t range = 0;  ///< which of the unit's pieces
  Extent extent;
};

/// Pieces in the order in which the units are updated. `counts` has, by unit, the elements that a
/// rank updates.
std::vector<OffloadPiece> offload_pieces(const std::vector<std::size_t>& counts,
                                         const OffloadOptimizerOptions& options);

/// Bytes in a file, and of the memory that it is read to, of `count` elements of an array: whole
/// pages.
std::size_t file_bytes(std::size_t count, std::size_t element_bytes);

/// Bytes of one moment of `count` elements there, its scales included.
std::size_t moment_file_bytes(const optim::Kept& kept, std::size_t count);
/// Bytes of a piece's record: its master weights and its moments.
std::size_t record_bytes(const optim::Kept& kept, std::size_t count);

/// Memory that pieces travel through, in turn.
struct OffloadStaging {
  std::size_t buffers = 0;    ///< as many as pieces, if those are fewer
  std::size_t elements = 0;   ///< of the longest piece
  std::size_t gradients = 0;  ///< bytes of one: fp32, from the device
  std::size_t arrays = 0;     ///< bytes of one: master and states, of what lies in files
  std::size_t weights = 0;    ///< bytes of one: what goes elsewhere, unless the master does

  [[nodiscard]] std::size_t bytes() const { return buffers * (gradients + arrays + weights); }
};
/// Staging of the pieces. `kept`: beside the master; `on_file`: weights_on_file().
OffloadStaging offload_staging(const std::vector<OffloadPiece>& pieces, Dtype compute,
                               const optim::Kept& kept, const std::vector<bool>& on_file,
                               const OffloadOptimizerOptions& optimizer,
                               const OffloadParamOptions& param);

/// Places of the pieces' records in a file: one after the other.
struct FileLayout {
  std::vector<std::uint64_t> begin;  ///< bytes, by piece; where the next begins for one without
  std::uint64_t bytes = 0;
};
/// Layout of the optimizer's file.
FileLayout optimizer_layout(const std::vector<OffloadPiece>& pieces, const optim::Kept& kept);
/// Layout of the file of the weights of units that lie in a file; a unit's weights are read at
/// once.
FileLayout weights_layout(const std::vector<OffloadPiece>& pieces, const std::vector<bool>& on_file,
                          Dtype compute);

/// Memory that the weights of units are read to.
struct WeightBuffers {
  std::size_t buffers = 0;  ///< as many as units that lie in a file, if those are fewer
  std::size_t bytes = 0;    ///< of one: the longest unit's
};
WeightBuffers weight_buffers(const std::vector<OffloadPiece>& pieces,
                             const std::vector<bool>& on_file, Dtype compute,
                             const OffloadParamOptions& options);

/// Pieces after the one in use that are on their way in, where pieces take turns in `buffers`
/// buffers: the others are on their way out.
std::size_t pieces_prefetched(std::size_t buffers);

}  // namespace zeropp::zero
