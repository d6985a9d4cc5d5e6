// One rank's part of a checkpoint: its slices one after the other in one file, with a SHA-256
// digest of every chunk. Reads check the digests of what they take. Host memory. Throws Error(io).
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "lib/checkpoint/manifest.hpp"

namespace zeropp::checkpoint {

/// A slice and its values.
struct HostSlice {
  Slice slice;
  std::span<const std::byte> values;  ///< slice.bytes()
};

/// Writes `slices` to `folder`/rank_file(rank) and returns when the disk has them.
std::vector<StoredSlice> write_rank_file(const std::filesystem::path& folder, std::uint64_t rank,
                                         std::span<const HostSlice> slices);

/// Whether the checkpoint has an array of this name, length and element size.
bool has_array(const Manifest& manifest, const Slice& slice);

/// Fills `values` (slice.bytes()) with `slice` of the checkpoint in `folder`. Throws Error(io) too
/// where the checkpoint has no such array, one of another length or element size, or bytes that are
/// not those that were written.
void read_slice(const std::filesystem::path& folder, const Manifest& manifest, const Slice& slice,
                std::span<std::byte> values);

}  // namespace zeropp::checkpoint
