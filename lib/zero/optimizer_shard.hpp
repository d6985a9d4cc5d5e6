// This rank's part of the optimizer: fp32 master weights and what the optimizer keeps for them
// (none, one or two arrays: AdamW's moments, SGD's momentum), by unit. At stage 0 the part
// is everything (replicated), else shard number `rank`. Owns its memory, and the table of the
// pieces that the optimizer goes over; the gradients, and the 16-bit weights that follow the
// master, are the engine's. Runs on the stream that it is given.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kernels/optim/learning_rate.hpp"
#include "kernels/optim/registry.hpp"
#include "lib/device/buffer.hpp"
#include "lib/device/device.hpp"
#include "lib/device/stream.hpp"
#include "lib/device/table.hpp"
#include "lib/zero/options.hpp"
#include "lib/zero/partition.hpp"

namespace zeropp::zero {

/// What a step of one unit reads and writes beside the optimizer's own state: this part of it,
/// where it lies in every step.
struct UnitArrays {
  View gradient;  ///< fp32: the sum over ranks and micro-steps
  View follower;  ///< 16-bit weights that follow the master, of one dtype in all units; or empty
};

class OptimizerShard {
 public:
  /// Master weights are drawn element by element (same values at any world size), on `stream`;
  /// the optimizer's state is zero. `arrays`: by unit. Throws Error(environment) when there is no
  /// memory.
  OptimizerShard(const std::vector<Unit>& units, const std::vector<UnitPartition>& partitions,
                 std::span<const UnitArrays> arrays, bool sharded, std::size_t rank,
                 std::uint64_t seed, const optim::Options& options, const Device& device,
                 StreamHandle stream);

  /// fp32, `shard` elements (`padded` when not sharded).
  [[nodiscard]] View master(std::size_t unit) const { return view(units_[unit].master, unit); }
  /// fp32 arrays like `master` that the optimizer keeps.
  [[nodiscard]] std::size_t states() const { return rule_.states; }
  [[nodiscard]] View state(std::size_t unit, std::size_t index) const {
    return view(units_[unit].states[index], unit);
  }
  /// Of step t.
  [[nodiscard]] double learning_rate(std::uint64_t t) const {
    return optim::learning_rate(options_, t);
  }

  /// Step t (1, 2, ...) of one unit, in one launch: with mean * gradient, clipped by the
  /// factor `clip`. The unit's follower is rounded from the new master.
  void update(std::size_t unit, std::uint64_t t, float mean, double clip, StreamHandle stream);

  [[nodiscard]] std::size_t master_bytes() const;
  [[nodiscard]] std::size_t state_bytes() const;

 private:
  struct State {
    Buffer master;
    std::vector<Buffer> states;
    std::size_t first_piece = 0;  ///< in pieces_
    std::size_t pieces = 0;
  };
  [[nodiscard]] View view(const Buffer& buffer, std::size_t unit) const {
    return buffer.view(count(unit), Dtype::fp32);
  }
  [[nodiscard]] std::size_t count(std::size_t unit) const {
    return sharded_ ? partitions_[unit].shard : partitions_[unit].padded;
  }
  /// Calls body(tensor, first element in the tensor, first element in this part, elements) for each
  /// tensor of which something lies in this part.
  template <class Body>
  void for_each_tensor(const Unit& layout, std::size_t unit, const Body& body) const;
  /// The pieces of a unit, behind those of the units before it.
  void add_pieces(const Unit& layout, std::size_t unit, const UnitArrays& arrays,
                  std::vector<optim::UpdatePiece>& pieces);

  std::vector<UnitPartition> partitions_;
  bool sharded_;
  std::size_t rank_;
  optim::Options options_;
  optim::Variant rule_;
  Device device_;
  std::vector<State> units_;
  Dtype follower_ = Dtype::fp32;  ///< fp32: there are none
  Table<optim::UpdatePiece> pieces_;
};

}  // namespace zeropp::zero
