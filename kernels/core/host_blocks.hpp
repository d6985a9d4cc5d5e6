// Loops of the host back end over plain arrays.
#pragma once

#include <Kokkos_Core.hpp>
#include <algorithm>
#include <cstddef>

namespace zeropp {

/// body(begin, end) over ranges that cover [0, n), in any order; done on return. Work is handed to
/// Kokkos in blocks: the loop inside a block is plain, so that it vectorizes.
template <class Body>
void for_blocks(const char* label, std::size_t n, const Body& body) {
  constexpr std::size_t kBlock = 1024;
  using Space = Kokkos::DefaultHostExecutionSpace;
  Kokkos::parallel_for(
      label,
      Kokkos::RangePolicy<Space, Kokkos::IndexType<std::size_t>>(0, (n + kBlock - 1) / kBlock),
      [=](std::size_t block) {
        const std::size_t begin = block * kBlock;
        body(begin, std::min(begin + kBlock, n));
      });
  Space().fence();
}

}  // namespace zeropp
