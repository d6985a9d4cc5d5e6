// Manifest of a checkpoint: its contents and their places, as the text file `manifest.json` beside
// the ranks' files. A checkpoint is a set of global arrays; each is stored as slices, written by
// the ranks that own them, which together cover it once. A rank that loads asks for slices of its
// own, whatever number of ranks saved: resharding is the intersection of slices.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace zeropp::checkpoint {

/// Bytes that one digest covers; a slice's last chunk is shorter.
inline constexpr std::uint64_t kChunk = std::uint64_t{16} << 20U;

/// Elements [offset, offset + count) of a global array of `total` elements.
struct Slice {
  std::string array;  ///< unique in a checkpoint: "master/embedding"
  std::size_t element_bytes = 4;
  std::uint64_t total = 0;
  std::uint64_t offset = 0;
  std::uint64_t count = 0;

  [[nodiscard]] std::uint64_t bytes() const { return count * element_bytes; }
};

/// A slice in a rank's file.
struct StoredSlice {
  Slice slice;
  std::uint64_t rank = 0;            ///< whose file, rank_file(rank)
  std::uint64_t position = 0;        ///< bytes from the file's begin
  std::vector<std::string> digests;  ///< SHA-256 of each chunk, in hexadecimal
};

/// A file beside the ranks' files that other programs read.
struct StoredFile {
  std::string name;
  /// Bytes that the digest covers, from the begin: all of the file, but of a safetensors file the
  /// header alone, which has digests of the tensors.
  std::uint64_t bytes = 0;
  std::string digest;  ///< SHA-256, in hexadecimal
};

struct Manifest {
  std::uint64_t step = 0;        ///< optimizer steps done
  std::uint64_t world_size = 1;  ///< ranks that wrote
  std::string state = "{}";      ///< the application's own text: what is no array
  std::vector<StoredSlice> slices;
  std::vector<StoredFile> files = {};  ///< earlier versions kept no digests of these
};

/// "rank-00003.bin".
std::string rank_file(std::uint64_t rank);

/// Slices as text and back, for ranks that tell the one that writes the manifest.
std::string slices_to_text(const std::vector<StoredSlice>& slices);
std::vector<StoredSlice> slices_from_text(const std::string& text, std::uint64_t world_size);

/// The manifest as JSON, with a digest of its own text.
std::string to_text(const Manifest& manifest);

/// Throws Error(io) that names `where` for what is no manifest, was changed, lacks a part of an
/// array, has a part twice, or is beyond any use in size: nothing is allocated by a number that the
/// text holds.
Manifest parse_manifest(std::string_view text, const std::string& where);

}  // namespace zeropp::checkpoint
