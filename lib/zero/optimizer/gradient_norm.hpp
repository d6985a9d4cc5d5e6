// The squared norm of the mean gradient, by canonical 1/N shard, so that its sum over all shards
// has one order at every stage. Reads gradients that are at the same place in every step; owns the
// tables of their pieces, the sums and the pinned memory that they arrive in. Runs on the
// stream that it is given; the host waits for nothing.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "lib/device/buffer.hpp"
#include "lib/device/compute_device.hpp"
#include "lib/device/stream.hpp"
#include "lib/device/table.hpp"
#include "lib/zero/plan/partition.hpp"

namespace zeropp::zero {

class GradientNorm {
 public:
  /// `gradients[u]`: fp32 sums over ranks and micro-steps, one or more whole canonical
  /// shards of partitions[u]; as many of every unit. Throws Error(environment) when there is no
  /// memory.
  GradientNorm(std::span<const View> gradients, std::span<const UnitPartition> partitions,
               const Device& device);

  /// Enqueues the sums of (gradient_scale * gradient)^2 of all units, or of one.
  void start(float gradient_scale, const Stream& stream) const;
  void start(std::size_t unit, float gradient_scale, StreamHandle stream) const;
  /// Brings the sums of all units to the host, once they are made.
  void fetch(const Stream& stream) const;
  /// Sums of squares, by canonical shard, units added in order. The stream has come past fetch().
  [[nodiscard]] std::vector<double> squares() const;

 private:
  ComputeDevice device_;
  std::size_t units_;
  std::size_t shards_;
  Buffer sums_;       ///< [shard][unit], then the block sums of each
  Buffer host_sums_;  ///< [shard][unit]
  /// By unit: its first piece; the last entry is the number of pieces. The arrays of a unit are
  /// those of its shards.
  std::vector<std::size_t> first_piece_;
  Table<optim::NormPiece> pieces_;
  Table<optim::NormArray> arrays_;
};

}  // namespace zeropp::zero
