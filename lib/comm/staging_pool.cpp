#include "lib/comm/staging_pool.hpp"

#include <algorithm>
#include <bit>

#include "lib/base/checked.hpp"

namespace zeropp::comm {

namespace {

/// Few sizes, so that blocks fit again: powers of two, above 64 MiB multiples of that.
std::size_t size_class(std::size_t bytes) {
  constexpr std::size_t kStep = std::size_t{64} << 20U;
  constexpr std::size_t kSmallest = 4096;
  return bytes <= kStep ? std::max(kSmallest, std::bit_ceil(bytes)) : round_up(bytes, kStep);
}

}  // namespace

StagingPool::Block StagingPool::take(std::size_t bytes) {
  auto best = idle_.end();
  for (auto block = idle_.begin(); block != idle_.end(); ++block) {
    if (block->memory.bytes() < bytes) continue;
    if (best == idle_.end() || block->memory.bytes() < best->memory.bytes()) best = block;
  }
  if (best == idle_.end()) return {Buffer(size_class(bytes), kind_), Event()};
  Block taken = std::move(*best);
  idle_.erase(best);
  return taken;
}

}  // namespace zeropp::comm
