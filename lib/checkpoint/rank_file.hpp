// One rank's part of a checkpoint: its slices one after the other in one file, with a SHA-256
// digest of every chunk. Reads check the digests of what they take. Host memory. Throws Error(io).
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string_view>
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

/// Reads arrays of the checkpoint in a folder.
class ArrayReader {
 public:
  /// `manifest` outlives this.
  ArrayReader(std::filesystem::path folder, const Manifest& manifest);

  /// Whether there is an array of this name, length and element size.
  [[nodiscard]] bool has(const Slice& slice) const;
  /// Fills `values` (slice.bytes()) with `slice`. Throws Error(usage) where there is no such array,
  /// or one of another length or element size; Error(io) too for bytes that are not those that were
  /// written.
  void read(const Slice& slice, std::span<std::byte> values) const;

 private:
  std::filesystem::path folder_;
  std::map<std::string_view, std::vector<const StoredSlice*>> arrays_;
};

}  // namespace zeropp::checkpoint
