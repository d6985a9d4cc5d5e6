// The element-wise steps of error feedback on the GPU: a grid row a slice, one element a turn.
#include <algorithm>
#include <type_traits>

#include "kernels/codec/check_memory.hpp"
#include "kernels/codec/feedback.hpp"
#include "kernels/codec/feedback_math.hpp"
#include "kernels/core/cuda/launch.cuh"

namespace zeropp::codec {
namespace {

using zeropp::cuda::check_launch;
using zeropp::cuda::kThreads;
using zeropp::cuda::stream_of;

/// body(image, slice, dense begin of the slice, element) for every element of a Layout.
template <class Body>
__global__ void for_each_of_slices(std::size_t rows, std::size_t slices, std::size_t length,
                                   Body body) {
  const std::size_t step = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  const std::size_t first = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  for (std::size_t row = blockIdx.y; row < rows; row += gridDim.y) {
    const std::size_t image = row / slices;
    const std::size_t slice = row - image * slices;
    for (std::size_t e = first; e < length; e += step) body(image, slice, row * length, e);
  }
}

template <class Body>
void for_slices(const Layout& layout, StreamHandle stream, Body body) {
  const std::size_t rows = layout.images * layout.slices;
  if (rows == 0 || layout.length == 0) return;
  constexpr std::size_t kMostRows = 65535;  // of a grid
  const auto grid_rows = static_cast<unsigned>(std::min(rows, kMostRows));
  const unsigned across = zeropp::cuda::grid_for(layout.length);
  for_each_of_slices<<<dim3(across, grid_rows), kThreads, 0, stream_of(stream)>>>(
      rows, layout.slices, layout.length, body);
  check_launch();
}

template <class Memory>
struct Carry {
  const Memory* memory;
  std::size_t image_stride;
  std::size_t slice_stride;
  Errors errors;
  float* carried;
  __device__ void operator()(std::size_t image, std::size_t slice, std::size_t dense,
                             std::size_t e) const {
    const Memory value = memory[image * image_stride + slice * slice_stride + e];
    const float error =
        errors.current[image * errors.image_stride + slice * errors.slice_stride + e];
    carried[dense + e] = carry_error(to_float(value), error);
  }
};

struct Keep {
  float beta;
  float fresh;
  const float* carried;
  const float* decoded;
  Errors errors;
  __device__ void operator()(std::size_t image, std::size_t slice, std::size_t dense,
                             std::size_t e) const {
    const std::size_t at = image * errors.image_stride + slice * errors.slice_stride + e;
    errors.next[at] =
        keep_error(beta, fresh, errors.current[at], carried[dense + e], decoded[dense + e]);
  }
};

template <class Memory>
struct Scale {
  Memory* values;
  float factor;
  __device__ void operator()(std::size_t i) const { values[i] = scale_error(values[i], factor); }
};

void carry(ConstView values, const Layout& layout, const Errors& errors, float* carried,
           StreamHandle stream) {
  check_memory(values, layout, Backend::cuda);
  with_type(values.dtype, [&](auto* element) {
    using Memory = std::remove_pointer_t<decltype(element)>;
    for_slices(layout, stream,
               Carry<Memory>{values.as<Memory>(), layout.image_stride, layout.slice_stride, errors,
                             carried});
  });
}

void keep(float beta, const float* carried, const float* decoded, const Layout& layout,
          const Errors& errors, StreamHandle stream) {
  for_slices(layout, stream, Keep{beta, 1.0F - beta, carried, decoded, errors});
}

void scale(float factor, View values, StreamHandle stream) {
  with_type(values.dtype, [&](auto* element) {
    using Memory = std::remove_pointer_t<decltype(element)>;
    zeropp::cuda::for_each(values.count, stream, Scale<Memory>{values.as<Memory>(), factor});
  });
}

}  // namespace

const FeedbackOps* cuda_feedback_ops() {
  static constexpr FeedbackOps table{carry, keep, scale};
  return &table;
}

}  // namespace zeropp::codec
