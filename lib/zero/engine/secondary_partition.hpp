// hpZ's secondary partition: this rank's 1/H of every unit, in UnitPartition::secondary_dtype, cut
// from what the first gather after a step decoded (ZeRO++ section 3.2), or with weight differences
// brought up to date along the rail. Each shard carries the version of the weights that it has;
// reading another version is a hard error. Owns its memory, which is the device's or, page-locked,
// the host's (FCDP, arXiv 2602.06499); runs on the stream that it is given.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "lib/device/buffer.hpp"
#include "lib/device/device.hpp"
#include "lib/zero/plan/partition.hpp"

namespace zeropp::zero {

class SecondaryPartition {
 public:
  /// `group_rank`: this rank's place among the H ranks. Units without a secondary size take no
  /// memory.
  SecondaryPartition(const std::vector<UnitPartition>& units, std::size_t group_rank,
                     const Device& device);

  /// Copies this rank's part of a gathered unit (padded elements, compute dtype).
  void keep(std::size_t unit, ConstView gathered, std::uint64_t version, StreamHandle stream);
  /// The shard of `unit`, which its caller brings to `version` with the next work that reads it.
  [[nodiscard]] View to_update(std::size_t unit, std::uint64_t version);
  /// The shard of `unit` as it is, to be saved or filled from what was saved.
  [[nodiscard]] View shard(std::size_t unit) const;
  void set_version(std::size_t unit, std::uint64_t version) { shards_[unit].version = version; }
  /// The part that this rank gives to the gather of piece `piece` of `unit`, whose result is `full`
  /// (compute dtype): the piece itself or, where that lies on the host, its place in `full`, to
  /// which `stream` brings it, by `staging` (staged_part_bytes()) where it has another dtype.
  /// Throws std::logic_error unless the shard has `version`.
  [[nodiscard]] ConstView part_to_gather(std::size_t unit, std::size_t piece, View full,
                                         std::byte* staging, std::uint64_t version,
                                         StreamHandle stream) const;
  [[nodiscard]] std::size_t bytes() const;

 private:
  struct Shard {
    Buffer memory;
    std::uint64_t version = 0;  ///< 0: never written; the engine's versions begin at 1
  };
  std::vector<UnitPartition> units_;
  std::size_t group_rank_;
  Device device_;
  std::vector<Shard> shards_;
};

}  // namespace zeropp::zero
