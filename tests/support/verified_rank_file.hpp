// Reads back what a rank wrote of a checkpoint.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <vector>

#include "lib/checkpoint/rank_file.hpp"

namespace zeropp::test {

/// Reads everything in `folder` that `rank` of `manifest` wrote: throws Error(io) where bytes are
/// not those that were written.
inline void verify_rank_file(const std::filesystem::path& folder,
                             const checkpoint::Manifest& manifest, std::uint64_t rank) {
  const checkpoint::ArrayReader arrays(folder, manifest);
  for (const checkpoint::StoredSlice& stored : manifest.slices) {
    if (stored.rank != rank) continue;
    std::vector<std::byte> values(stored.slice.bytes());
    arrays.read(stored.slice, values);
  }
}

}  // namespace zeropp::test
