// The host's element-wise steps, and encode with feedback, which is composed of a table's.
#include "kernels/codec/feedback.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

#include "kernels/codec/check_memory.hpp"
#include "kernels/codec/feedback_math.hpp"
#include "kernels/core/host_for.hpp"

namespace zeropp::codec {
namespace {

/// body(first in memory or of errors by `image_stride` and `slice_stride`, ...) over ranges of
/// every slice: body(image, slice, dense begin of the slice, begin, end).
template <class Body>
void for_slices(const char* label, const Layout& layout, const Body& body) {
  constexpr std::size_t kBlock = 1024;
  const std::size_t blocks = (layout.length + kBlock - 1) / kBlock;
  const std::size_t slices = layout.slices;
  const std::size_t length = layout.length;
  host_for(label, layout.images * slices * blocks, [=](std::size_t task) {
    const std::size_t row = task / blocks;
    const std::size_t begin = (task - row * blocks) * kBlock;
    body(row / slices, row % slices, row * length, begin, std::min(begin + kBlock, length));
  });
}

void carry(ConstView values, const Layout& layout, const Errors& errors, float* carried,
           StreamHandle) {
  check_memory(values, layout, Backend::host);
  with_type(values.dtype, [&](auto* element) {
    using Memory = std::remove_pointer_t<decltype(element)>;
    const auto* const memory = values.as<Memory>();
    for_slices("carry_error", layout,
               [=](std::size_t image, std::size_t slice, std::size_t dense, std::size_t begin,
                   std::size_t end) {
                 const Memory* const from =
                     memory + image * layout.image_stride + slice * layout.slice_stride;
                 const float* const error =
                     errors.current + image * errors.image_stride + slice * errors.slice_stride;
                 for (std::size_t e = begin; e < end; ++e) {
                   carried[dense + e] = carry_error(to_float(from[e]), error[e]);
                 }
               });
  });
}

void keep(float beta, const float* carried, const float* decoded, const Layout& layout,
          const Errors& errors, StreamHandle) {
  const float fresh = 1.0F - beta;
  for_slices("keep_error", layout,
             [=](std::size_t image, std::size_t slice, std::size_t dense, std::size_t begin,
                 std::size_t end) {
               const std::size_t at = image * errors.image_stride + slice * errors.slice_stride;
               for (std::size_t e = begin; e < end; ++e) {
                 errors.next[at + e] = keep_error(beta, fresh, errors.current[at + e],
                                                  carried[dense + e], decoded[dense + e]);
               }
             });
}

void scale(float factor, View values, StreamHandle) {
  with_type(values.dtype, [&](auto* element) {
    using Memory = std::remove_pointer_t<decltype(element)>;
    auto* const memory = values.as<Memory>();
    for_blocks("scale_error", values.count, [=](std::size_t begin, std::size_t end) {
      for (std::size_t i = begin; i < end; ++i) memory[i] = scale_error(memory[i], factor);
    });
  });
}

}  // namespace

const FeedbackOps& feedback_ops(Backend backend) {
  static constexpr FeedbackOps host{carry, keep, scale};
  if (backend == Backend::host) return host;
  const FeedbackOps* const cuda = cuda_feedback_ops();
  if (cuda == nullptr) {
    throw std::invalid_argument("error feedback: this build has no CUDA; use the host back end");
  }
  return *cuda;
}

FeedbackEncode::FeedbackEncode(Codec codec, float beta)
    : codec_(std::move(codec)), beta_(beta), ops_(&feedback_ops(codec_.backend())) {
  if (!(beta >= 0 && beta < 1)) {
    throw std::invalid_argument("error feedback: a decay of " + std::to_string(beta) +
                                " is not in [0, 1)");
  }
}

void FeedbackEncode::run(ConstView values, const Layout& layout, const Errors& errors,
                         WireImages out, float* scratch, StreamHandle stream,
                         const Draw& draw) const {
  const std::size_t n = layout.images * layout.slices * layout.length;
  float* const carried = scratch;
  float* const decoded = scratch + n;
  const Layout dense{layout.images, layout.slices * layout.length,
                     layout.slices, layout.length,
                     layout.length, layout.padded};
  const MemoryKind kind = codec_.backend() == Backend::host ? MemoryKind::host : MemoryKind::device;
  ops_->carry(values, layout, errors, carried, stream);
  codec_.encode(ConstView::of(carried, n, kind), dense, out, stream, draw);
  codec_.decode(out, dense, View::of(decoded, n, kind), stream);
  ops_->keep(beta_, carried, decoded, layout, errors, stream);
}

}  // namespace zeropp::codec
