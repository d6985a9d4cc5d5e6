// Chunks of a collective: how it cuts its parts for the pipeline, and where chunks lie in the
// borrowed workspace. Chunks begin at multiples of 16 blocks: payload and scales, of a byte or
// more, of every chunk but the last fill whole 16-byte units, so neither the bytes on the wire nor
// the blocks depend on the number of chunks.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "kernels/codec/codec.hpp"
#include "lib/base/checked.hpp"

namespace zeropp::collective {

/// A range of every part, in elements.
struct Chunk {
  std::size_t first = 0;
  std::size_t length = 0;
};

/// The multiple that chunk boundaries and buckets keep; `block`: the largest block of the codecs.
constexpr std::size_t chunk_quantum(std::size_t block) { return 16 * block; }

/// [0, count) in at most `depth` chunks of nearly equal length; none when count is 0.
inline std::vector<Chunk> chunk_plan(std::size_t count, std::size_t depth, std::size_t block) {
  const std::size_t quantum = chunk_quantum(block);
  const std::size_t units = ceil_div(count, quantum);
  const std::size_t chunks = std::min(depth, units);
  std::vector<Chunk> plan;
  for (std::size_t c = 0; c < chunks; ++c) {
    const std::size_t first = units * c / chunks * quantum;
    const std::size_t last = std::min(count, units * (c + 1) / chunks * quantum);
    plan.push_back({first, last - first});
  }
  return plan;
}

/// Layout of `length` values in a row that are encoded together, in whole blocks.
inline codec::Layout padded_layout(std::size_t length, std::size_t block) {
  auto layout = codec::Layout::contiguous(length);
  layout.padded = round_up(length, block);
  return layout;
}

/// Hands out offsets of a workspace that is lent later.
class WorkspacePlan {
 public:
  std::size_t reserve(std::size_t bytes) {
    const std::size_t offset = bytes_;
    bytes_ += round_up(bytes, kAlignment);
    return offset;
  }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }

 private:
  static constexpr std::size_t kAlignment = 256;
  std::size_t bytes_ = 0;
};

}  // namespace zeropp::collective
