// Files of the safetensors format: a JSON header that names tensors, then their values, one after
// the other. 8 bytes give the header's length; of a tensor it has type, shape, and begin and end
// counted from the header's end. Little-endian, rows first. Files of ours have SHA-256 digests of
// the pieces of every tensor among the header's free texts; a reader that finds them checks every
// piece that it reads. It allocates nothing by a number that the file does not back with bytes.
// Host memory. Throws Error(io) that names the file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "kernels/core/dtype.hpp"
#include "lib/base/file.hpp"
#include "lib/checkpoint/manifest.hpp"

namespace zeropp::checkpoint {

/// Bytes that one digest covers; a tensor's last piece is shorter.
inline constexpr std::uint64_t kPiece = std::uint64_t{1} << 20U;

struct StoredTensor {
  std::string name;
  Dtype dtype = Dtype::fp32;
  std::vector<std::uint64_t> shape;
  std::uint64_t begin = 0;  ///< bytes from the begin of the values; a writer sets it
  /// Digests of its pieces of kPiece bytes, in hexadecimal; one alone is of all its bytes. Empty:
  /// the file has none.
  std::vector<std::string> digests;

  [[nodiscard]] std::uint64_t count() const;  ///< elements
  [[nodiscard]] std::uint64_t bytes() const { return count() * size_of(dtype); }
};

/// Writes a new file: room for the header, the values in the order of the tensors, the header.
class SafetensorsWriter {
 public:
  SafetensorsWriter(std::filesystem::path path, std::vector<StoredTensor> tensors);

  /// All values of the next tensor.
  void write(std::span<const std::byte> values);
  /// Ends the file, after the last tensor; the disk has its values when it returns. Returns what a
  /// manifest keeps of it.
  [[nodiscard]] StoredFile finish();

 private:
  std::filesystem::path path_;
  File file_;
  std::vector<StoredTensor> tensors_;
  std::size_t next_ = 0;  ///< the tensor whose values come next
};

class SafetensorsReader {
 public:
  /// Throws Error(io) too for a header that is too large or no such header, types other than F32,
  /// BF16 and F16, and tensors that overlap, leave a gap or do not end where the file does.
  explicit SafetensorsReader(std::filesystem::path path);

  [[nodiscard]] const std::map<std::string, StoredTensor>& tensors() const { return tensors_; }
  /// Elements [begin, end) of one of them, widened to fp32. Reads them, and of a file with digests
  /// the rest of their pieces. Throws Error(io) too where a piece does not have its digest.
  [[nodiscard]] std::vector<float> read(const StoredTensor& tensor, std::uint64_t begin,
                                        std::uint64_t end) const;
  /// Reads all values, a part after the other. Throws Error(io) too where a piece does not have its
  /// digest.
  void verify(const StoredTensor& tensor) const;

 private:
  void require_digest(const StoredTensor& tensor, std::size_t piece,
                      const std::string& digest) const;

  std::filesystem::path path_;
  File file_;
  std::uint64_t values_ = 0;  ///< where they begin in the file
  std::map<std::string, StoredTensor> tensors_;
};

}  // namespace zeropp::checkpoint
