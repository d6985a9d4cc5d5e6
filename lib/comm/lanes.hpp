// A message cut for several communicators that carry it side by side. NCCL drives the sockets of a
// communicator by one thread, which sends and receives by copying: that thread, and not the
// network, bounds what two ranks on different nodes exchange over TCP.
#pragma once

#include <algorithm>
#include <cstddef>

#include "lib/base/checked.hpp"

namespace zeropp::comm {

struct Slice {
  std::size_t first = 0;
  std::size_t bytes = 0;
};

/// Slices are multiples of it, but for the last: shorter ones cost more than they save. NCCL sends
/// by pieces of 128 KiB.
constexpr std::size_t kLaneQuantum = std::size_t{128} << 10U;

/// The part of a message of `bytes` that lane `index` of `lanes` carries; later lanes get nothing
/// of a short one.
inline Slice slice_of(std::size_t bytes, std::size_t lanes, std::size_t index) {
  const std::size_t step = round_up(ceil_div(bytes, lanes), kLaneQuantum);
  const std::size_t first = std::min(bytes, index * step);
  return {first, std::min(bytes, first + step) - first};
}

}  // namespace zeropp::comm
