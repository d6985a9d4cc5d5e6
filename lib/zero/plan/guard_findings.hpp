// The digests that the guard against silent corruption compares, and the findings that follow from
// those of all ranks: a pure function, the same on every rank. A digest is compared with another
// one of the same rank, which has to be equal since nothing wrote there in between, or with those
// of the ranks that hold the same bytes: the ranks that differ from more than half of these are
// damaged, and without such a majority all of them may be.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace zeropp::zero {

/// Digests of a step, by unit; those of an operation that runs several times add up.
enum class Seen : std::uint8_t {
  at_rest,    ///< master weights and moments, before the update
  left_even,  ///< those that the update of a step of even number left
  left_odd,   ///< or of odd number
  resident,   ///< whole weights that stay
  gathered,   ///< whole weights, as they were gathered among all ranks
  own_part,   ///< of that, the own part
  own_shard,  ///< that the own part was gathered from, where it goes as it is
  cut,        ///< the part of gathered weights that hpZ keeps
  secondary,  ///< hpZ's shard, after the step's last use
  inside,     ///< whole weights, as they were gathered inside hpZ's groups
  gradients,  ///< reduced, where several ranks have the same
};
inline constexpr std::size_t kSeen = static_cast<std::size_t>(Seen::gradients) + 1;

/// Name of the guard's memory in traces, and its bytes on the device: the digests.
inline constexpr const char* kGuardMemory = "verification";
constexpr std::size_t guard_memory(std::size_t units) {
  return kSeen * units * sizeof(std::uint64_t);
}

/// Words of a rank before its digests.
enum class Header : std::uint8_t {
  secondary,     ///< ranks with the same number hold the same hpZ shards
  shard,         ///< ranks with the same number hold the same optimizer shards
  wrong_update,  ///< 1 + the unit whose update was wrong; 0: none was
};
inline constexpr std::size_t kHeaderWords = static_cast<std::size_t>(Header::wrong_update) + 1;

/// A difference that the guard found.
struct Finding {
  std::string what;        ///< "gathered weights of block.0 are not the other ranks'"
  std::vector<int> ranks;  ///< that are damaged or, if not `certain`, may be
  bool certain = true;
};

/// Facts that a comparison needs beside the words.
struct GuardSetting {
  std::span<const std::string> units;  ///< names
  std::size_t ranks = 1;
  std::size_t stride = 0;  ///< words from one rank's header to the next one's; digests follow it
  bool one_group = true;   ///< all ranks share one copy of the weights
  bool has_left = false;   ///< what an update left was digested
  Seen left = Seen::left_even;  ///< where
  std::vector<bool> cut;        ///< by unit: hpZ's shard was cut in this step
};

/// Differences in the words of all ranks, those first that explain others.
std::vector<Finding> findings_of(const GuardSetting& setting, std::span<const std::uint64_t> words);

/// One line: the step, the first finding, its hosts (by rank; empty: unknown), and the remedy.
std::string damage_line(std::uint64_t step, std::span<const Finding> findings,
                        std::span<const std::string> hosts);

}  // namespace zeropp::zero
