// Master weights and an optimizer's moments in a file, a record for each piece: the arrays one
// after the other, each in whole pages; in 8 bits a moment's scales follow its values. A record
// comes into one of several buffers in turn, is updated there, and goes back. Owns the file and the
// buffers.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "lib/base/async_file.hpp"
#include "lib/device/buffer.hpp"
#include "lib/zero/optimizer/kept_moment.hpp"
#include "lib/zero/plan/offload_plan.hpp"

namespace zeropp::zero {

class OptimizerRecords {
 public:
  /// A piece's fp32 master and what is kept beside; buffers of memory of the given kind. Throws
  /// Error(io) where the folder takes no file of that size, Error(environment) when there is no
  /// memory.
  OptimizerRecords(std::vector<OffloadPiece> pieces, const optim::Kept& kept,
                   const OffloadStaging& staging, const Options& options, MemoryKind memory);

  /// Arrays of a piece, in the piece's buffer: valid from arrive() until the buffer's next piece
  /// comes.
  [[nodiscard]] View master(std::size_t piece);
  [[nodiscard]] KeptMoment moment(std::size_t piece, std::size_t index);
  /// Starts to read the piece's arrays from the file, once the buffer's former piece is in the
  /// file.
  void fetch(std::size_t piece);
  /// Returns when what fetch() or send() began is done. Throws Error(io).
  void arrive(std::size_t piece);
  /// Starts to write the piece's arrays to the file.
  void send(std::size_t piece);
  /// Sets all arrays of a piece to zeros, in its buffer, which no transfer may be using.
  void clear(std::size_t piece);
  /// Returns when every transfer is done. Throws Error(io).
  void drain();

  /// One of the arrays that a piece has: master, or the values or the scales of a moment.
  struct Array {
    std::size_t index = 0;  ///< 0: the master; then the moments
    bool scales = false;
    std::size_t element_bytes = sizeof(float);
    std::size_t elements = 1;  ///< elements of a unit for each element of the array
  };
  /// Copies `part` of an array of a unit, in elements of the array, between the file and host
  /// memory. Called between steps.
  void read(std::size_t unit, const Array& array, const Extent& part, std::span<std::byte> to);
  void write(std::size_t unit, const Array& array, const Extent& part,
             std::span<const std::byte> from);

  [[nodiscard]] const AsyncFile& file() const { return file_; }
  [[nodiscard]] std::size_t bytes() const;

 private:
  struct Slot {
    Buffer memory;
    AsyncFile::Transfer under_way;
  };
  [[nodiscard]] Slot& slot(std::size_t piece) { return slots_[piece % slots_.size()]; }
  /// Begin and bytes of an array in a piece's record, whole pages.
  [[nodiscard]] Extent place(std::size_t piece, std::size_t index) const;
  [[nodiscard]] std::size_t bytes_of(std::size_t piece) const;
  /// Calls body(first byte in `part`, its bytes in a buffer) for each piece that has some of it.
  template <class Body>
  void for_each_part(std::size_t unit, const Array& array, const Extent& part, bool write,
                     const Body& body);

  std::vector<OffloadPiece> pieces_;
  optim::Kept kept_;
  FileLayout layout_;
  std::vector<Slot> slots_;
  AsyncFile file_;  ///< after the memory that its transfers use
};

}  // namespace zeropp::zero
