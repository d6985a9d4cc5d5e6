// Exact differences: 16-bit values by how their bit patterns differ from those of a copy, in few
// bits and without loss. Patterns become integers in the order of the numbers (monotone()), so that
// a value that moved by k units in the last place differs by k. The difference, modulo 2^16 and
// zigzag (0, -1, 1, -2, ...), is a code of `width` bits; the last code is an escape, whose value
// follows as it is. Any pattern to any other survives: NaN, infinities, -0, subnormals.
//
// How many values escape at each width is counted first, so that the ranks of a collective agree on
// one shape and send images of one size. The image of n values, little-endian:
//   codes     planes of whole blocks of kExactBlock values (planes.hpp); differences after the
//             n-th are 0
//   offsets   of each block, 32 bits: the escapes before it; padded to 16 bytes with zeros
//   escapes   16 bits each, in the order of the values; as many as the shape says, and up to 16
//             bytes, the unused ones 0
// Width 0 says that nothing differs: no bytes. Width 16: the values as they are, padded to 16
// bytes. Where more escapes than the image has room for, the last ones stay as the copy has them,
// and differ the next time. The images of all back ends have the same bits.
//
// Kernels run on the stream they are given and allocate nothing. Memory lies in the back end's, and
// arrays of counts, images and strides on multiples of 16 bytes. Throws std::logic_error for memory
// that the back end cannot reach, or of other dtypes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "kernels/codec/codec.hpp"
#include "kernels/core/stream.hpp"
#include "kernels/core/view.hpp"

namespace zeropp::codec {

/// Values that share an offset.
inline constexpr std::size_t kExactBlock = 1024;
/// Widths with codes: 1 .. kExactWidths.
inline constexpr unsigned kExactWidths = 8;
/// Width of values that go as they are.
inline constexpr unsigned kWholeWidth = 16;

/// [w - 1]: the values that escape in codes of w bits; [0] are those that differ.
using Escapes = std::array<std::uint64_t, kExactWidths>;

/// Shape of an image. Ranks whose images travel together use the same shape.
struct ExactShape {
  unsigned width = kWholeWidth;
  std::uint64_t escapes = 0;  ///< that the image has room for

  bool operator==(const ExactShape&) const = default;
};

/// The shape of the fewest bytes for n values of which at most so many escape.
ExactShape exact_shape(std::size_t n, const Escapes& escapes);
/// The bytes of the image of n values. Throws std::invalid_argument for a width that is none.
std::size_t exact_bytes(std::size_t n, const ExactShape& shape);
/// The bytes of the counts of n values, and of the scratch after them.
std::size_t exact_count_bytes(std::size_t n);

struct ExactOps {
  /// Counts by block and width what escapes, into `counts` (exact_count_bytes()), and over all
  /// blocks into `total`. `values`: bf16 or fp16, or fp32, which are rounded to the copy's dtype
  /// first, saturating; `copy`: bf16 or fp16, as many.
  void (*count)(ConstView values, ConstView copy, std::byte* counts, Escapes* total, StreamHandle);
  /// The image of the values that were counted.
  /// `counts` has scratch, which is written.
  void (*encode)(ConstView values, ConstView copy, std::byte* counts, const ExactShape&,
                 std::byte* image, StreamHandle);
  /// Brings `images` copies of n elements each, one after the other, to the values: copy i by the
  /// image at in.data + i * in.stride. An image that no encode() made gives some values, and reads
  /// nothing outside of itself.
  void (*decode)(ConstWireImages in, std::size_t images, std::size_t n, const ExactShape&,
                 View copies, StreamHandle);
};

/// Throws std::invalid_argument where the build lacks the back end.
const ExactOps& exact_ops(Backend backend);
/// The GPU's table; null in a build without CUDA.
const ExactOps* cuda_exact_ops();

}  // namespace zeropp::codec
