// Block codecs: n values in memory <-> one wire image (payload, then scales, each padded to 16
// bytes; wire.hpp). `CodecOps` is the table that a back end fills for a format; `Codec` is a format
// bound to a block size, a memory dtype and a back end. Kernels run on the stream they are given,
// allocate nothing and throw std::logic_error, for memory that the back end cannot reach or that is
// smaller than its layout, on CUDA for wire images off their alignment as well, and cuda::CudaError
// for a failed launch; binding throws std::invalid_argument with a message that names the remedy.
// Source: ZeRO++ (arXiv 2306.10209) sections 3.1 and 3.3, block-based quantization.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "kernels/codec/draw.hpp"
#include "kernels/codec/rule.hpp"
#include "kernels/codec/spec.hpp"
#include "kernels/core/stream.hpp"
#include "kernels/core/view.hpp"

namespace zeropp::codec {

/// How the values of one or more wire images lie in memory. Value e of slice j of image i is
/// memory[i * image_stride + j * slice_stride + e]; a slice has `length` values in memory and
/// `padded` values on the wire, the difference being zeros (encode) or dropped (decode). Strides
/// are in elements. A wire image holds slices * padded values, slice after slice.
struct Layout {
  std::size_t images = 1;
  std::size_t image_stride = 0;
  std::size_t slices = 1;
  std::size_t slice_stride = 0;
  std::size_t length = 0;
  std::size_t padded = 0;

  [[nodiscard]] std::size_t wire_elements() const { return slices * padded; }
  /// One image of n values in a row.
  static Layout contiguous(std::size_t n) { return {1, 0, 1, 0, n, n}; }
};

/// Wire images in memory: image i begins at data + i * stride (bytes). Both are multiples of 16.
struct WireImages {
  std::byte* data = nullptr;
  std::size_t stride = 0;
};
struct ConstWireImages {
  const std::byte* data = nullptr;
  std::size_t stride = 0;
  ConstWireImages(const std::byte* data_, std::size_t stride_) : data(data_), stride(stride_) {}
  ConstWireImages(const WireImages& images) : data(images.data), stride(images.stride) {}  // NOLINT
};

/// Run-time values of a bound codec that the kernels read.
struct Params {
  std::size_t block = 1;  ///< values that the kernels take as a block; 1 for formats without scales
  RuleNumbers numbers;    ///< of a format that works by a rule (rule.hpp)
  /// Dtype that encode() rounds fp32 memory to, saturating, before all else; fp32: it does not.
  Dtype rounded = Dtype::fp32;
  Draw draw;  ///< of one encode()
};

/// One format, with one set of options, on one back end. Memory views may be fp32, bf16 or fp16.
struct CodecOps {
  /// Values -> layout.images wire images. Every byte of each image is written, padding included.
  void (*encode)(const Params&, ConstView memory, const Layout&, WireImages out, StreamHandle);
  /// Wire images -> values, saturating at the largest finite value of the memory dtype.
  void (*decode)(const Params&, ConstWireImages in, const Layout&, View memory, StreamHandle);
  /// Wire images -> values that are added to what memory holds, by with_difference() of
  /// kernels/core/copy_maths.hpp.
  void (*decode_onto)(const Params&, ConstWireImages in, const Layout&, View memory, StreamHandle);
  /// accumulator[0 .. n) += the first n values of one image that holds `wire_elements` values.
  void (*decode_add)(const Params&, ConstWireImages in, std::size_t wire_elements, std::size_t n,
                     float* accumulator, StreamHandle);
  /// sum[0 .. n) = the first n values of `images` images, summed in fp32 in image order, starting
  /// from zero: acc = fma(q, s, acc); where products are not exact (+s32, +asym) multiplied, then
  /// added; of rotated values (+had32) the sum is rotated back, once.
  void (*decode_reduce)(const Params&, ConstWireImages in, std::size_t images,
                        std::size_t wire_elements, std::size_t n, float* sum, StreamHandle);
};

/// A codec bound to a memory dtype and a back end: a value, cheap to copy.
class Codec {
 public:
  /// Binds `spec` on `backend`. `none` becomes the identity in `memory` (the dtype on the wire as
  /// well). Throws std::invalid_argument when the format is unknown or takes no such block or
  /// options, or the build lacks the back end.
  Codec(const CodecSpec& spec, Dtype memory, Backend backend = Backend::host);

  /// Canonical name, as in CLI, JSON and traces: "int8:256", "none".
  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] Backend backend() const { return backend_; }
  /// Values that share a scale; 1 for formats without scales.
  [[nodiscard]] std::size_t block() const { return block_; }
  /// Bytes of scale (and minimum) that an image has for each block; 0 for formats without scales.
  [[nodiscard]] std::size_t scale_bytes() const { return scale_bytes_; }
  /// Whether an image has a scale of its own (FormatInfo::scales_images).
  [[nodiscard]] bool scales_images() const { return scales_images_; }
  /// Offset in bytes of the scales in a wire image of n values.
  [[nodiscard]] std::size_t scale_offset(std::size_t n) const;
  /// The bytes of the wire image of n values, exactly: round_up(payload, 16) + round_up(scales,
  /// 16), and 16 where an image of any value has a scale of its own.
  [[nodiscard]] std::size_t wire_bytes(std::size_t n) const;
  /// Largest |x - x'| that is promised for a finite x in a block, which is not NaN on the wire,
  /// with this largest magnitude, decoded to fp32.
  [[nodiscard]] double error_bound(float x, float absmax) const {
    return error_bound_(params_.numbers, x, absmax);
  }
  /// The errors of a block have at most this share of error_bound() as their root mean square: 1,
  /// or less where values are mixed before they are quantized and only all errors in a row could
  /// add up to the bound of one.
  [[nodiscard]] double rms_share() const { return rms_share_; }
  /// By how much the slope of decoded over given values may differ from 1: FormatInfo's, or more
  /// where an option clips.
  [[nodiscard]] double slope_tolerance() const { return slope_tolerance_; }
  /// This codec where fp32 memory is rounded to its memory dtype before it is encoded: the image of
  /// fp32 values is that of the values rounded. Memory of other dtypes is encoded as it is.
  [[nodiscard]] Codec rounding() const {
    Codec copy = *this;
    copy.params_.rounded = memory_;
    return copy;
  }

  /// `draw`: the random numbers of a codec that rounds stochastically (+sr); others read none.
  void encode(ConstView memory, const Layout& layout, WireImages out, StreamHandle stream,
              const Draw& draw = {}) const {
    Params params = params_;
    params.draw = draw;
    ops_->encode(params, memory, layout, out, stream);
  }
  void decode(ConstWireImages in, const Layout& layout, View memory, StreamHandle stream) const {
    ops_->decode(params_, in, layout, memory, stream);
  }
  void decode_onto(ConstWireImages in, const Layout& layout, View memory,
                   StreamHandle stream) const {
    ops_->decode_onto(params_, in, layout, memory, stream);
  }
  void decode_add(ConstWireImages in, std::size_t wire_elements, std::size_t n, float* accumulator,
                  StreamHandle stream) const {
    ops_->decode_add(params_, in, wire_elements, n, accumulator, stream);
  }
  void decode_reduce(ConstWireImages in, std::size_t images, std::size_t wire_elements,
                     std::size_t n, float* sum, StreamHandle stream) const {
    ops_->decode_reduce(params_, in, images, wire_elements, n, sum, stream);
  }

 private:
  friend class ReduceEncode;
  Backend backend_;
  Dtype memory_;
  const CodecOps* ops_ = nullptr;
  Params params_;
  std::string
      kernel_name_;  ///< format and options that run; `none` in 16-bit memory is bf16 or fp16
  std::string name_;
  std::size_t block_ = 1;
  std::size_t payload_bits_ = 0;  ///< per value
  std::size_t scale_bytes_ = 0;   ///< per block; 0: no scales
  bool scales_images_ = false;
  double (*error_bound_)(const RuleNumbers&, float x, float absmax) = nullptr;
  double rms_share_ = 1;
  double slope_tolerance_ = 0;
};

/// decode_reduce_encode: the step between the two hops of qgZ (paper section 3.3). `images` images
/// of `from`, each of slices * padded values, are summed in image order; slice j of the sum becomes
/// image j of `to`. Runs in one pass where the pair is in the fused list, else as decode_reduce
/// then encode through fp32 scratch: bitwise equal.
class ReduceEncode {
 public:
  /// Both bound to one back end, else std::invalid_argument.
  ReduceEncode(const Codec& from, const Codec& to);
  /// "fused" or "composed": for traces.
  [[nodiscard]] std::string_view path() const { return fused_ != nullptr ? "fused" : "composed"; }
  /// fp32 values of scratch that run() needs for `slices` slices of `padded` values; 0 when fused.
  [[nodiscard]] std::size_t scratch_elements(std::size_t slices, std::size_t padded) const {
    return fused_ != nullptr ? 0 : slices * padded;
  }
  /// `scratch` lies in the back end's memory, as the images do. `draw`: of the encoding, with the
  /// images of `to`.
  void run(ConstWireImages in, std::size_t images, std::size_t slices, std::size_t padded,
           WireImages out, float* scratch, StreamHandle stream, const Draw& draw = {}) const;

  /// One pass over the blocks: (from, to) parameters as in run().
  using Fused = void (*)(const Params& from, const Params& to, ConstWireImages in,
                         std::size_t images, std::size_t slices, std::size_t padded, WireImages out,
                         StreamHandle);

 private:
  Codec from_;
  Codec to_;
  Fused fused_ = nullptr;
};

}  // namespace zeropp::codec
