#include <initializer_list>

#include "kernels/core/cuda/launch.cuh"
#include "kernels/nn/cuda/pointwise.hpp"
#include "kernels/nn/cuda/rows.cuh"
#include "kernels/nn/cuda/views.hpp"
#include "kernels/nn/math.hpp"

namespace zeropp::nn::cuda_ops {

namespace {

/// Calls body(position, column) for packs of W elements of a matrix: where a pack begins in memory
/// and in its row.
template <int W, class Body>
struct ByRows {
  std::size_t packs;  ///< a row
  std::size_t stride;
  Body body;

  __device__ void operator()(std::size_t index) const {
    const std::size_t column = index % packs * W;
    body(index / packs * stride + column, column);
  }
};

template <class T, int W>
struct AddBias {
  const T* bias;
  T* y;

  __device__ void operator()(std::size_t at, std::size_t column) const {
    const Pack<T, W> b = load<W>(bias + column);
    const Pack<T, W> values = load<W>(y + at);
    float sum[W];
#pragma unroll
    for (int i = 0; i < W; ++i) sum[i] = values[i] + b[i];
    store(y + at, rounded<T>(sum));
  }
};

template <class T, int W>
struct GeluForward {
  const T* pre;
  T* y;

  __device__ void operator()(std::size_t at, std::size_t /*column*/) const {
    const Pack<T, W> x = load<W>(pre + at);
    float values[W];
#pragma unroll
    for (int i = 0; i < W; ++i) values[i] = Gelu::value(x[i]);
    store(y + at, rounded<T>(values));
  }
};

template <class T, int W>
struct GeluBackward {
  const T* pre;
  T* d;

  __device__ void operator()(std::size_t at, std::size_t /*column*/) const {
    const Pack<T, W> x = load<W>(pre + at);
    const Pack<T, W> gradient = load<W>(d + at);
    float values[W];
#pragma unroll
    for (int i = 0; i < W; ++i) values[i] = gradient[i] * Gelu::derivative(x[i]);
    store(d + at, rounded<T>(values));
  }
};

/// Runs Body<T, W>{from, to} over a matrix of `rows` x `columns` in `to`, with the widest W that
/// its rows and both pointers allow.
template <template <class, int> class Body>
void run(StreamHandle stream, std::size_t rows, std::size_t columns, std::size_t stride,
         ConstView from, View to) {
  with_type(to.dtype, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    const bool aligned = columns % kPack<T> == 0 &&
                         rows_aligned<T>(stride, {from.as<T>(), static_cast<const T*>(to.data)});
    with_pack<T>(aligned, [&](auto width) {
      constexpr int kWidth = decltype(width)::value;
      const std::size_t packs = columns / kWidth;
      using Loop = ByRows<kWidth, Body<T, kWidth>>;
      cuda::for_each(rows * packs, stream, Loop{packs, stride, {from.as<T>(), to.as<T>()}});
    });
  });
}

}  // namespace

void add_bias(StreamHandle stream, const LinearShape& shape, ConstView bias, View y) {
  run<AddBias>(stream, shape.rows, shape.out, shape.stride(), bias, y);
}

void gelu_forward(StreamHandle stream, const LinearShape& shape, ConstView pre, View y) {
  run<GeluForward>(stream, shape.rows, shape.out, shape.stride(), pre, y);
}

void gelu_backward(StreamHandle stream, std::size_t count, ConstView pre, View d) {
  // One row: how the matrix is folded does not matter.
  run<GeluBackward>(stream, 1, count, count, pre, d);
}

}  // namespace zeropp::nn::cuda_ops
