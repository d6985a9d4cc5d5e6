// This rank's part of the optimizer: fp32 master weights, moments and the accumulated gradient, by
// unit. At stage 0 the part is everything (replicated), else the canonical 1/N shard. Owns its
// memory; runs on the compute stream.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "lib/device/buffer.hpp"
#include "lib/device/device.hpp"
#include "lib/device/stream.hpp"
#include "lib/zero/options.hpp"
#include "lib/zero/partition.hpp"

namespace zeropp::zero {

class OptimizerShard {
 public:
  /// Master weights are drawn element by element (same values at any world size), on `stream`;
  /// moments are zero.
  OptimizerShard(const std::vector<Unit>& units, const std::vector<UnitPartition>& partitions,
                 bool sharded, std::size_t rank, std::uint64_t seed,
                 const optim::AdamWOptions& options, const Device& device, StreamHandle stream);

  /// fp32, `shard` elements (`padded` when not sharded).
  [[nodiscard]] View master(std::size_t unit) const { return view(units_[unit].master, unit); }
  [[nodiscard]] View first_moment(std::size_t unit) const { return view(units_[unit].m, unit); }
  [[nodiscard]] View second_moment(std::size_t unit) const { return view(units_[unit].v, unit); }
  /// The canonical 1/N shard of the master weights.
  [[nodiscard]] ConstView canonical_master(std::size_t unit) const;

  /// Sum of squares of `gradients` (fp32, by unit, this part), one value for each canonical shard
  /// it holds.
  [[nodiscard]] std::vector<double> squared_norms(const std::vector<View>& gradients,
                                                  const Stream& stream) const;
  /// AdamW step t (1, 2, ...) of one unit with the mean gradient. `shard`: the unit's part in a
  /// 16-bit dtype, which follows the master, or an empty view.
  void update(std::size_t unit, ConstView gradient, std::uint64_t t, double gradient_scale,
              View shard, StreamHandle stream);

  [[nodiscard]] std::size_t master_bytes() const;
  [[nodiscard]] std::size_t moment_bytes() const;

 private:
  struct State {
    Buffer master;
    Buffer m;
    Buffer v;
  };
  [[nodiscard]] View view(const Buffer& buffer, std::size_t unit) const {
    return buffer.view(count(unit), Dtype::fp32);
  }
  [[nodiscard]] std::size_t count(std::size_t unit) const {
    return sharded_ ? partitions_[unit].shard : partitions_[unit].padded;
  }
  /// Calls body(tensor, first element in the tensor, first element in this part, elements) for each
  /// piece of a tensor that lies in this part.
  template <class Body>
  void for_each_piece(std::size_t unit, const Body& body) const;

  std::vector<Unit> layout_;
  std::vector<UnitPartition> partitions_;
  bool sharded_;
  std::size_t rank_;
  optim::AdamWOptions options_;
  Device device_;
  std::vector<State> units_;
  Buffer norms_;  ///< scratch of the norm, then one sum for each canonical shard and unit: fp64
};

}  // namespace zeropp::zero
