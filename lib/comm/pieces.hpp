// Pieces of messages that are longer than one call of MPI takes: counts of MPI are int, and some
// libraries add up those of all ranks in an int as well.
#pragma once

#include <algorithm>
#include <cstddef>

#include "lib/base/checked.hpp"

namespace zeropp::comm {

/// Calls piece(first, count) for consecutive pieces of at most `most` (at least 1) elements, in the
/// order of `first`, which together are [0, total). `count` is an int of at least 1.
template <class Piece>
void in_pieces(std::size_t total, std::size_t most, Piece&& piece) {
  for (std::size_t first = 0; first < total; first += most) {
    piece(first, checked<int>(std::min(most, total - first), "the length of a message,"));
  }
}

}  // namespace zeropp::comm
