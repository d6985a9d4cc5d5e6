// Error feedback around a codec: what encoding lost is kept and added to the next values. With g
// the values, e the error that is kept, Q the codec and b the decay:
//
//   h = g + e,   Q(h) is sent,   e <- b * e + (1 - b) * (h - decode(Q(h)))
//
// b = 0 is classical error feedback; b > 0 lets only a part of the latest error in, LoCo's moving
// average. Runs as four passes, of which two are the codec's own encode and decode: every codec has
// it, with the same bits on every back end. The sums are rounded one by one, the last two
// operations together (a fused multiply-add). Where the new error is not finite, since a value was
// not, the old one stays: errors that begin finite remain so. Source: LoCo (arXiv 2407.04480),
// section 3.
#pragma once

#include <cstddef>

#include "kernels/codec/codec.hpp"

namespace zeropp::codec {

/// The errors that belong to a Layout of values: that of element e of slice j of image i is
/// [i * image_stride + j * slice_stride + e]. Written to `next`, which may be `current`.
struct Errors {
  const float* current = nullptr;
  float* next = nullptr;
  std::size_t image_stride = 0;
  std::size_t slice_stride = 0;
};

/// The element-wise steps on one back end. Dense arrays hold image after image, slice after slice,
/// layout.length values each.
struct FeedbackOps {
  /// carried = values + current, dense. Values of any memory dtype.
  void (*carry)(ConstView values, const Layout& layout, const Errors& errors, float* carried,
                StreamHandle stream);
  /// next = beta * current + (1 - beta) * (carried - decoded), or current where that is not finite;
  /// both dense.
  void (*keep)(float beta, const float* carried, const float* decoded, const Layout& layout,
               const Errors& errors, StreamHandle stream);
  /// values *= factor, saturating; fp32 or bf16.
  void (*scale)(float factor, View values, StreamHandle stream);
};

/// Throws std::invalid_argument where the build lacks the back end.
const FeedbackOps& feedback_ops(Backend backend);
/// The GPU's table; null in a build without CUDA.
const FeedbackOps* cuda_feedback_ops();

/// encode() of a codec with feedback. A value, cheap to copy.
class FeedbackEncode {
 public:
  /// `beta` in [0, 1), else std::invalid_argument.
  FeedbackEncode(Codec codec, float beta);
  /// fp32 values of scratch that run() needs.
  [[nodiscard]] static std::size_t scratch_elements(const Layout& layout) {
    return 2 * layout.images * layout.slices * layout.length;
  }
  /// Encodes values + errors as codec.encode(values, layout, out, stream, draw) encodes values;
  /// `errors` and `scratch` lie in the back end's memory, as the images do.
  void run(ConstView values, const Layout& layout, const Errors& errors, WireImages out,
           float* scratch, StreamHandle stream, const Draw& draw = {}) const;

 private:
  Codec codec_;
  float beta_;
  const FeedbackOps* ops_;
};

}  // namespace zeropp::codec
