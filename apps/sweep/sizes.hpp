// The sizes of a sweep, as nccl-tests counts them.
#pragma once

#include <cstddef>
#include <vector>

namespace zeropp::sweep {

/// Sizes from `minimum` to `maximum` bytes: times `factor` where it is above 1, else plus `step`.
std::vector<std::size_t> sizes(std::size_t minimum, std::size_t maximum, std::size_t step,
                               std::size_t factor);

/// Elements of one rank's part of a buffer of `bytes`: a multiple of 16 bytes.
constexpr std::size_t elements_of_part(std::size_t bytes, std::size_t element_bytes,
                                       std::size_t ranks) {
  const std::size_t quantum = 16 / element_bytes;
  return bytes / element_bytes / ranks / quantum * quantum;
}

}  // namespace zeropp::sweep
