// SwiGLU on the GPU: one read and one write of everything, a block a row.
#include "kernels/core/cuda/launch.cuh"
#include "kernels/nn/cuda/operations.hpp"
#include "kernels/nn/cuda/rows.cuh"
#include "kernels/nn/cuda/views.hpp"
#include "kernels/nn/math.hpp"

namespace zeropp::nn::cuda_ops {

namespace {

constexpr unsigned kThreads = 256;
/// Packs of a row for each thread: their loads are in flight together.
constexpr std::size_t kPacks = 4;

template <class T, int W>
__global__ void forward_kernel(std::size_t width, const T* gate_up, T* y) {
  const T* const gate = gate_up + blockIdx.x * 2 * width;
  const T* const up = gate + width;
  T* const out = y + blockIdx.x * width;
#pragma unroll 2
  for (std::size_t j = threadIdx.x * W; j < width; j += static_cast<std::size_t>(blockDim.x) * W) {
    const Pack<T, W> g = load<W>(gate + j);
    const Pack<T, W> u = load<W>(up + j);
    float values[W];
#pragma unroll
    for (int i = 0; i < W; ++i) values[i] = Silu::value(g[i]) * u[i];
    store(out + j, rounded<T>(values));
  }
}

template <class T, int W>
__global__ void backward_kernel(std::size_t width, const T* dy, T* gate_up) {
  T* const gate = gate_up + blockIdx.x * 2 * width;
  T* const up = gate + width;
  const T* const grad = dy + blockIdx.x * width;
#pragma unroll 2
  for (std::size_t j = threadIdx.x * W; j < width; j += static_cast<std::size_t>(blockDim.x) * W) {
    const Pack<T, W> g = load<W>(gate + j);
    const Pack<T, W> u = load<W>(up + j);
    const Pack<T, W> d = load<W>(grad + j);
    float d_gate[W];
    float d_up[W];
#pragma unroll
    for (int i = 0; i < W; ++i) {
      d_gate[i] = d[i] * u[i] * Silu::derivative(g[i]);
      d_up[i] = d[i] * Silu::value(g[i]);
    }
    store(gate + j, rounded<T>(d_gate));
    store(up + j, rounded<T>(d_up));
  }
}

/// launch(T*, pack size, threads) for rows of `width` elements at both addresses.
template <class Launch>
void with_rows(Dtype dtype, std::size_t width, const void* a, const void* b, Launch launch) {
  with_type(dtype, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    const bool aligned =
        rows_aligned<T>(width, {static_cast<const T*>(a), static_cast<const T*>(b)});
    with_pack<T>(aligned, [&](auto pack) {
      launch(type, pack, threads_for(width / decltype(pack)::value, kPacks, kThreads));
      cuda::check_launch();
    });
  });
}

}  // namespace

void swiglu_forward(const NnContext& context, std::size_t rows, std::size_t width,
                    ConstView gate_up, View y) {
  require(gate_up, rows * 2 * width, y.dtype, "swiglu input");
  require(y, rows * width, y.dtype, "swiglu output");
  if (rows == 0) return;
  with_rows(y.dtype, width, gate_up.data, y.data, [&](auto* type, auto pack, unsigned threads) {
    using T = std::remove_pointer_t<decltype(type)>;
    forward_kernel<T, decltype(pack)::value>
        <<<static_cast<unsigned>(rows), threads, 0, cuda::stream_of(context.stream)>>>(
            width, gate_up.as<T>(), y.as<T>());
  });
}

void swiglu_backward(const NnContext& context, std::size_t rows, std::size_t width, ConstView dy,
                     View gate_up) {
  require(gate_up, rows * 2 * width, gate_up.dtype, "swiglu input");
  require(dy, rows * width, gate_up.dtype, "swiglu output gradient");
  if (rows == 0) return;
  with_rows(gate_up.dtype, width, dy.data, gate_up.data,
            [&](auto* type, auto pack, unsigned threads) {
              using T = std::remove_pointer_t<decltype(type)>;
              backward_kernel<T, decltype(pack)::value>
                  <<<static_cast<unsigned>(rows), threads, 0, cuda::stream_of(context.stream)>>>(
                      width, dy.as<T>(), gate_up.as<T>());
            });
}

}  // namespace zeropp::nn::cuda_ops
