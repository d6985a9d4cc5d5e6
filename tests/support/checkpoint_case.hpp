// Arrays of a checkpoint as a test has them: values that say where they belong, cut over ranks.
#pragma once

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "lib/checkpoint/rank_file.hpp"

namespace zeropp::test {

struct Array {
  std::string name;
  std::size_t element_bytes;
  std::uint64_t total;

  /// Byte `i` of the array: another one for every array and place.
  [[nodiscard]] std::byte at(std::uint64_t i) const {
    const std::uint64_t mixed = (i + 1) * 0x9E3779B97F4A7C15U + std::hash<std::string>{}(name);
    return static_cast<std::byte>(mixed >> 56U);
  }
  [[nodiscard]] checkpoint::Slice slice(std::uint64_t offset, std::uint64_t count) const {
    return {name, element_bytes, total, offset, count};
  }
  /// Slice that rank `rank` of `ranks` owns: ceil(total / ranks) elements, less at the end.
  [[nodiscard]] checkpoint::Slice part(std::uint64_t rank, std::uint64_t ranks) const {
    const std::uint64_t shard = (total + ranks - 1) / ranks;
    const std::uint64_t begin = std::min(rank * shard, total);
    return slice(begin, std::min(shard, total - begin));
  }
  [[nodiscard]] std::vector<std::byte> values(const checkpoint::Slice& slice) const {
    std::vector<std::byte> bytes(slice.bytes());
    for (std::uint64_t i = 0; i < bytes.size(); ++i) {
      bytes[i] = at(slice.offset * element_bytes + i);
    }
    return bytes;
  }
};

/// The parts of one rank, written to `folder`.
inline std::vector<checkpoint::StoredSlice> write_parts(const std::filesystem::path& folder,
                                                        const std::vector<Array>& arrays,
                                                        std::uint64_t rank, std::uint64_t ranks) {
  std::vector<std::vector<std::byte>> memory(arrays.size());  // that slices point into
  std::vector<checkpoint::HostSlice> slices(arrays.size());
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    const checkpoint::Slice part = arrays[i].part(rank, ranks);
    memory[i] = arrays[i].values(part);
    slices[i] = {part, memory[i]};
  }
  return checkpoint::write_rank_file(folder, rank, slices);
}

}  // namespace zeropp::test
