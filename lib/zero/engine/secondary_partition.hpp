// hpZ's secondary partition: this rank's 1/H of every unit in the compute dtype, cut from what the
// first gather after a step decoded (ZeRO++ section 3.2). Each shard carries the version of the
// weights it was cut from; reading another version is a hard error. Owns its memory; runs on the
// stream that it is given.
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
  SecondaryPartition(const std::vector<UnitPartition>& units, Dtype compute, std::size_t group_rank,
                     const Device& device);

  /// Copies this rank's part of a gathered unit (padded elements, compute dtype).
  void keep(std::size_t unit, ConstView gathered, std::uint64_t version, StreamHandle stream);
  /// The shard of `unit`. Throws std::logic_error unless it was cut from `version`.
  [[nodiscard]] ConstView read(std::size_t unit, std::uint64_t version) const;
  [[nodiscard]] std::size_t bytes() const;

 private:
  struct Shard {
    Buffer memory;
    std::uint64_t version = 0;  ///< 0: never written; the engine's versions begin at 1
  };
  std::vector<UnitPartition> units_;
  Dtype compute_;
  std::size_t group_rank_;
  Device device_;
  std::vector<Shard> shards_;
};

}  // namespace zeropp::zero
