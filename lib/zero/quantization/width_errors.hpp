// Errors that integers of each width would make of every unit's values, measured on a sample of
// them: of a shard up to kSampled values, all of them where it has no more, else runs over its
// whole length, in the blocks that the wire has. Owns the memory of the sample and of one wire
// image; the host waits when it measures, not when it keeps.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "kernels/codec/codec.hpp"
#include "lib/device/buffer.hpp"
#include "lib/device/device.hpp"
#include "lib/device/stream.hpp"
#include "lib/zero/plan/partition.hpp"

namespace zeropp::zero {

inline constexpr std::size_t kSampled = std::size_t{1} << 18U;

/// Sample of a shard of `count` elements: runs in order, none overlapping, each at a multiple of
/// the largest block that there is.
std::vector<Extent> sample_of(std::size_t count);

class WidthErrors {
 public:
  /// `memory`: dtype of the values. `rank`: whose shards are kept of gradients. Throws
  /// Error(environment) when there is no memory.
  WidthErrors(const std::vector<codec::CodecSpec>& codecs, Dtype memory,
              const std::vector<UnitPartition>& units, std::size_t rank, const Device& device);

  /// Keeps the sample of `shards[u]`, the shard of unit u, for every unit.
  void keep(std::span<const ConstView> shards, StreamHandle stream);
  /// Keeps the sample of this rank's own shards, of the gradients of a bucket that this rank is
  /// about to send. `gradients[u]`: unit u's padded gradients, at least where the bucket has
  /// segments of it.
  void keep(const Bucket& bucket, std::span<const View> gradients, StreamHandle stream);

  /// Squares, by unit and codec, of what a codec loses of this rank's sample, added and scaled to
  /// the whole shard. Waits for the stream.
  [[nodiscard]] std::vector<std::vector<double>> measure(const Stream& stream);

  [[nodiscard]] MemoryReport memory() const;

 private:
  void copy(std::size_t unit, ConstView values, std::size_t first, StreamHandle stream);
  [[nodiscard]] std::vector<float> fetch(ConstView view, const Stream& stream) const;

  std::vector<codec::Codec> codecs_;
  Dtype dtype_;
  std::vector<UnitPartition> units_;
  std::size_t rank_;
  Device device_;
  std::vector<std::vector<Extent>> sampled_;  ///< by unit
  std::vector<std::size_t> counts_;           ///< by unit: elements of the sample
  std::vector<Buffer> samples_;               ///< by unit
  Buffer image_;                              ///< of the largest sample
  Buffer decoded_;                            ///< of the largest sample
};

}  // namespace zeropp::zero
