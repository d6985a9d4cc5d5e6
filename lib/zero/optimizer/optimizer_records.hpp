// Master weights and optimizer states in a file, a record for each piece: the arrays one after the
// other, each in whole pages. A record comes into one of several buffers in turn, is updated there,
// and goes back. Owns the file and the buffers.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "lib/base/async_file.hpp"
#include "lib/device/buffer.hpp"
#include "lib/zero/plan/offload_plan.hpp"

namespace zeropp::zero {

class OptimizerRecords {
 public:
  /// `arrays` of them, fp32, a piece; buffers of memory of the given kind. Throws Error(io) where
  /// the folder takes no file of that size, Error(environment) when there is no memory.
  OptimizerRecords(std::vector<OffloadPiece> pieces, std::size_t arrays,
                   const OffloadStaging& staging, const Options& options, MemoryKind memory);

  /// Array `index` of a piece, in the piece's buffer: valid from arrive() until the buffer's next
  /// piece comes.
  [[nodiscard]] View array(std::size_t piece, std::size_t index);
  /// The arrays begin to come, once what was in the buffer before is in the file.
  void fetch(std::size_t piece);
  /// Returns when what fetch() or send() began is done. Throws Error(io).
  void arrive(std::size_t piece);
  /// The arrays begin to go back.
  void send(std::size_t piece);
  /// All arrays of a piece as zeros, in its buffer, which is in nobody's use then.
  void clear(std::size_t piece);
  /// Returns when every transfer is done. Throws Error(io).
  void drain();

  /// Elements of a unit, counted as pieces count them, from or to an array in the file; of the
  /// host's memory. Between steps.
  void read(std::size_t unit, std::size_t array, const Extent& part, std::span<std::byte> to);
  void write(std::size_t unit, std::size_t array, const Extent& part,
             std::span<const std::byte> from);

  [[nodiscard]] const AsyncFile& file() const { return file_; }
  [[nodiscard]] std::size_t bytes() const;

 private:
  struct Slot {
    Buffer memory;
    AsyncFile::Transfer under_way;
  };
  [[nodiscard]] Slot& slot(std::size_t piece) { return slots_[piece % slots_.size()]; }
  [[nodiscard]] std::size_t array_bytes(std::size_t piece) const;
  /// Calls body(first byte in `part`, its bytes in a buffer) for each piece that has some of it.
  template <class Body>
  void for_each_part(std::size_t unit, std::size_t array, const Extent& part, bool write,
                     const Body& body);

  std::vector<OffloadPiece> pieces_;
  std::size_t arrays_;
  FileLayout layout_;
  std::vector<Slot> slots_;
  AsyncFile file_;  ///< after the memory that its transfers use
};

}  // namespace zeropp::zero
