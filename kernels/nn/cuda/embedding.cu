// Token and position embedding on the GPU; the table of positions may be missing. Backward without
// atomics: the rows are sorted by token (a stable sort keeps their order), then each token's rows
// are added in order, as on the host.
#include <algorithm>
#include <bit>
#include <cub/device/device_radix_sort.cuh>

#include "kernels/core/cuda/launch.cuh"
#include "kernels/nn/cuda/operations.hpp"
#include "kernels/nn/cuda/rows.cuh"
#include "kernels/nn/cuda/views.hpp"

namespace zeropp::nn::cuda_ops {

namespace {

/// Rows whose loads are in flight together.
constexpr int kInFlight = 8;
/// Packs of a row for each thread.
constexpr std::size_t kPacks = 4;

template <class T, int W>
__global__ void forward_kernel(EmbeddingShape shape, const std::int32_t* tokens,
                               const T* token_table, const T* position_table, T* y) {
  const std::size_t row = blockIdx.x;
  const T* const token = token_table + static_cast<std::size_t>(tokens[row]) * shape.hidden;
  const T* const position =
      position_table == nullptr ? nullptr : position_table + row % shape.length * shape.hidden;
  T* const out = y + row * shape.hidden;
  for (std::size_t j = static_cast<std::size_t>(threadIdx.x) * W; j < shape.hidden;
       j += static_cast<std::size_t>(blockDim.x) * W) {
    const Pack<T, W> a = load<W>(token + j);
    if (position == nullptr) {
      store(out + j, a);
      continue;
    }
    const Pack<T, W> b = load<W>(position + j);
    float sum[W];
#pragma unroll
    for (int i = 0; i < W; ++i) sum[i] = a[i] + b[i];
    store(out + j, rounded<T>(sum));
  }
}

/// total[0 .. W) += values at row_of(0), row_of(1), ... row_of(n - 1), one after the other.
template <int W, class T, class RowOf>
__device__ __forceinline__ void add_rows(std::size_t n, const T* values, std::size_t stride,
                                         float* total, RowOf row_of) {
  float sum[W];
#pragma unroll
  for (int i = 0; i < W; ++i) sum[i] = total[i];
  std::size_t k = 0;
  for (; k + kInFlight <= n; k += kInFlight) {
    Pack<T, W> pack[kInFlight];
#pragma unroll
    for (int p = 0; p < kInFlight; ++p) pack[p] = load<W>(values + row_of(k + p) * stride);
#pragma unroll
    for (int p = 0; p < kInFlight; ++p) {
#pragma unroll
      for (int i = 0; i < W; ++i) sum[i] += pack[p][i];
    }
  }
  for (; k < n; ++k) {
    const Pack<T, W> pack = load<W>(values + row_of(k) * stride);
#pragma unroll
    for (int i = 0; i < W; ++i) sum[i] += pack[i];
  }
#pragma unroll
  for (int i = 0; i < W; ++i) total[i] = sum[i];
}

/// Number of elements at the begin of sorted[0 .. n) that equal sorted[0].
__device__ std::size_t run_length(const std::int32_t* sorted, std::size_t n) {
  const std::int32_t first = sorted[0];
  std::size_t low = 1;
  while (low < n) {
    const std::size_t middle = low + (n - low) / 2;
    if (sorted[middle] == first) {
      low = middle + 1;
    } else {
      n = middle;
    }
  }
  return low;
}

/// A block a sorted place: it adds the rows of a token where they begin, and nothing elsewhere.
template <class T, int W>
__global__ void token_gradient_kernel(std::size_t rows, std::size_t hidden,
                                      const std::int32_t* sorted_tokens,
                                      const std::int32_t* sorted_rows, const T* dy,
                                      float* d_token_table) {
  const std::size_t begin = blockIdx.x;
  const std::int32_t token = sorted_tokens[begin];
  if (begin > 0 && sorted_tokens[begin - 1] == token) return;
  const std::size_t n = run_length(sorted_tokens + begin, rows - begin);
  float* const total = d_token_table + static_cast<std::size_t>(token) * hidden;
  for (std::size_t j = static_cast<std::size_t>(threadIdx.x) * W; j < hidden;
       j += static_cast<std::size_t>(blockDim.x) * W) {
    add_rows<W>(n, dy + j, hidden, total + j,
                [&](std::size_t k) { return static_cast<std::size_t>(sorted_rows[begin + k]); });
  }
}

/// A block a position.
template <class T, int W>
__global__ void position_gradient_kernel(EmbeddingShape shape, const T* dy,
                                         float* d_position_table) {
  const std::size_t t = blockIdx.x;
  for (std::size_t j = static_cast<std::size_t>(threadIdx.x) * W; j < shape.hidden;
       j += static_cast<std::size_t>(blockDim.x) * W) {
    add_rows<W>(shape.sequences, dy + j, shape.hidden, d_position_table + t * shape.hidden + j,
                [&](std::size_t s) { return s * shape.length + t; });
  }
}

struct Iota {
  std::int32_t* values;
  __device__ void operator()(std::size_t i) const { values[i] = static_cast<std::int32_t>(i); }
};

/// Row numbers, tokens in order, their rows, and what the sort needs: parts of the workspace, each
/// aligned to 256 bytes.
struct SortSpace {
  std::size_t rows;
  std::size_t sort_bytes;

  explicit SortSpace(const EmbeddingShape& shape)
      : rows(shape.sequences * shape.length), sort_bytes(0) {
    const std::int32_t* const in = nullptr;
    std::int32_t* const out = nullptr;
    cuda::check(cub::DeviceRadixSort::SortPairs(nullptr, sort_bytes, in, out, in, out, count()));
  }
  /// cub counts in the type it is given.
  [[nodiscard]] std::int64_t count() const { return static_cast<std::int64_t>(rows); }
  [[nodiscard]] std::size_t array() const { return (rows + 63) / 64 * 64; }
  [[nodiscard]] std::size_t elements() const { return 3 * array() + (sort_bytes + 3) / 4; }
};

}  // namespace

void embedding_forward(const NnContext& context, const EmbeddingShape& shape,
                       const std::int32_t* tokens, ConstView token_table, ConstView position_table,
                       View y) {
  const std::size_t rows = shape.sequences * shape.length;
  if (rows == 0) return;
  with_type(y.dtype, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    const T* const token =
        elements<T>(token_table, shape.vocab * shape.hidden, "embedding token table");
    const T* const position =
        position_table.count > 0
            ? elements<T>(position_table, shape.length * shape.hidden, "embedding position table")
            : nullptr;
    T* const out = elements<T>(y, rows * shape.hidden, "embedding output");
    with_pack<T>(rows_aligned<T>(shape.hidden, {token, position, out}), [&](auto pack) {
      constexpr int kWidth = pack;
      const unsigned threads = threads_for(shape.hidden / kWidth, kPacks, 256);
      forward_kernel<T, kWidth>
          <<<static_cast<unsigned>(rows), threads, 0, cuda::stream_of(context.stream)>>>(
              shape, tokens, token, position, out);
      cuda::check_launch();
    });
  });
}

void embedding_backward(const NnContext& context, const EmbeddingShape& shape,
                        const std::int32_t* tokens, ConstView dy, View d_token_table,
                        View d_position_table) {
  const std::size_t rows = shape.sequences * shape.length;
  if (rows == 0) return;
  const SortSpace space(shape);
  float* const d_token =
      elements<float>(d_token_table, shape.vocab * shape.hidden, "embedding token gradient");
  float* const d_position = d_position_table.count > 0
                                ? elements<float>(d_position_table, shape.length * shape.hidden,
                                                  "embedding position gradient")
                                : nullptr;
  // The scratch is typed fp32; it holds integers here.
  auto* const row_numbers = reinterpret_cast<std::int32_t*>(
      elements<float>(context.workspace, space.elements(), "embedding workspace"));
  std::int32_t* const sorted_tokens = row_numbers + space.array();
  std::int32_t* const sorted_rows = sorted_tokens + space.array();
  void* const sort_memory = sorted_rows + space.array();
  const cudaStream_t stream = cuda::stream_of(context.stream);

  cuda::for_each(rows, context.stream, Iota{row_numbers});
  std::size_t sort_bytes = space.sort_bytes;
  const int bits = static_cast<int>(std::bit_width(shape.vocab));
  cuda::check(cub::DeviceRadixSort::SortPairs(sort_memory, sort_bytes, tokens, sorted_tokens,
                                              row_numbers, sorted_rows, space.count(), 0,
                                              std::min(bits, 32), stream));
  with_type(dy.dtype, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    const T* const grad = elements<T>(dy, rows * shape.hidden, "embedding output gradient");
    with_pack<T>(rows_aligned<T>(shape.hidden, {grad}), [&](auto pack) {
      constexpr int kWidth = pack;
      const unsigned threads = threads_for(shape.hidden / kWidth, kPacks, 256);
      token_gradient_kernel<T, kWidth><<<static_cast<unsigned>(rows), threads, 0, stream>>>(
          rows, shape.hidden, sorted_tokens, sorted_rows, grad, d_token);
      cuda::check_launch();
      if (d_position == nullptr) return;
      position_gradient_kernel<T, kWidth>
          <<<static_cast<unsigned>(shape.length), threads, 0, stream>>>(shape, grad, d_position);
      cuda::check_launch();
    });
  });
}

std::size_t embedding_workspace(const EmbeddingShape& shape) { return SortSpace(shape).elements(); }

}  // namespace zeropp::nn::cuda_ops
