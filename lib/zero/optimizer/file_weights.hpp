// The weights of units that are gathered from a file, in the compute dtype: this rank's shards, a
// unit's pieces one after the other, each in whole pages. They come into buffers in turn, in the
// order in which a schedule gathers them and ahead of it, and are copied to the device from there.
// Owns the file and the buffers.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "lib/base/async_file.hpp"
#include "lib/device/buffer.hpp"
#include "lib/device/device.hpp"
#include "lib/device/stream.hpp"
#include "lib/zero/plan/offload_plan.hpp"

namespace zeropp::zero {

class FileWeights {
 public:
  /// `pieces` of what this rank updates; `on_file`, by unit: whose weights lie here. Throws
  /// Error(io) where the folder takes no file of that size, Error(environment) when there is no
  /// memory.
  FileWeights(const std::vector<OffloadPiece>& pieces, std::vector<bool> on_file,
              const Options& options, const Device& device);

  [[nodiscard]] bool has(std::size_t unit) const { return on_file_[unit]; }
  /// Begins to write a piece from `memory`, file_bytes() of it, which belongs to it until wait().
  AsyncFile::Transfer write(std::size_t piece, std::span<const std::byte> memory);
  void wait(const AsyncFile::Transfer& transfer) { file_.wait(transfer); }
  /// Starts to read the weights of `units`, for which upload() is called next in this order. Writes
  /// before are complete.
  void prefetch(std::vector<std::size_t> units);
  /// Copies a unit's shard to `to`, on the device, for what is enqueued on `stream` from now on; it
  /// is read now where it was not prefetched. Throws Error(io).
  void upload(std::size_t unit, std::byte* to, const Stream& stream);

  [[nodiscard]] const AsyncFile& file() const { return file_; }
  [[nodiscard]] std::size_t bytes() const;

 private:
  struct Slot {
    Buffer memory;
    AsyncFile::Transfer arrives;
    Event left;  ///< for the device
  };
  /// A piece of a unit, in the unit's record.
  struct Part {
    std::size_t elements = 0;  ///< before it in the shard
    std::size_t count = 0;
    std::size_t at = 0;  ///< bytes in the record
  };
  struct Record {
    std::uint64_t begin = 0;
    std::size_t bytes = 0;
    std::vector<Part> parts;
  };
  void fetch(std::size_t number);

  std::vector<bool> on_file_;
  std::size_t element_;
  FileLayout layout_;
  std::vector<std::size_t> piece_bytes_;
  std::vector<Record> records_;        ///< by unit
  std::vector<std::size_t> sequence_;  ///< units, in the order of upload()
  std::size_t fetched_ = 0;            ///< units of sequence_ whose read was started
  std::size_t uploaded_ = 0;           ///< units of sequence_ that were uploaded
  std::vector<Slot> slots_;
  AsyncFile file_;  ///< after the memory that its transfers use
};

}  // namespace zeropp::zero
