// Sums of bytes and messages over all ranks of a job, which may be more than 64 bits count: then
// they stay at the largest number. Pure functions.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "lib/comm/traffic.hpp"
#include "lib/zero/plan/schedule.hpp"
#include "lib/zero/plan/volume.hpp"

namespace zeropp::plan {

/// More than can be counted.
inline constexpr std::uint64_t kUncounted = std::numeric_limits<std::uint64_t>::max();

inline std::uint64_t saturated_sum(std::uint64_t sum, std::uint64_t value, std::uint64_t times) {
  if (value != 0 && times > (kUncounted - sum) / value) return kUncounted;
  return sum + value * times;
}

/// Adds `more`, so many `times`.
inline void add(comm::Bytes& sum, const comm::Bytes& more, std::uint64_t times = 1) {
  sum.intra = saturated_sum(sum.intra, more.intra, times);
  sum.inter = saturated_sum(sum.inter, more.inter, times);
}

/// Element by element; `sums` begins as zeros.
inline void add(std::vector<comm::Bytes>& sums, const std::vector<comm::Bytes>& more,
                std::uint64_t times) {
  sums.resize(more.size());
  for (std::size_t i = 0; i < more.size(); ++i) add(sums[i], more[i], times);
}

/// Kind by kind.
inline void add(zero::Volumes& sums, const zero::Volumes& more, std::uint64_t times) {
  for (std::size_t kind = 0; kind < zero::kOpKinds; ++kind) {
    add(sums.by_kind.at(kind), more.by_kind.at(kind), times);
  }
}

/// zero::volume() of a schedule.
inline comm::Bytes saturated_volume(const zero::Schedule& schedule, const zero::Volumes& volumes) {
  comm::Bytes total;
  for (const zero::Op& op : schedule.ops) add(total, zero::volume(op, volumes));
  return total;
}

}  // namespace zeropp::plan
