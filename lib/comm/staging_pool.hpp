// Pinned host memory for messages of device memory: lent block by block, kept and lent again, freed
// with the pool. In steady state nothing is allocated. A block carries the event after which its
// bytes are no longer read: who takes it makes its stream wait for that.
#pragma once

#include <cstddef>
#include <vector>

#include "lib/device/buffer.hpp"
#include "lib/device/stream.hpp"

namespace zeropp::comm {

class StagingPool {
 public:
  struct Block {
    Buffer memory;
    Event idle;  ///< in the stream that used the block last
  };

  explicit StagingPool(MemoryKind kind) : kind_(kind) {}

  /// A block of at least `bytes` bytes: the smallest that is idle, else a new one. Throws
  /// Error(environment) when there is no memory.
  [[nodiscard]] Block take(std::size_t bytes);
  void give_back(Block block) { idle_.push_back(std::move(block)); }

 private:
  MemoryKind kind_;
  std::vector<Block> idle_;
};

}  // namespace zeropp::comm
