// Normalisation of rows on the GPU, backward. A multiprocessor has one block of several groups of
// threads; a group takes rows in turn, while the loads of its next row are under way, and its share
// of the weight's and bias' gradients stays in registers. The groups of a block join their shares
// in order; a second pass adds those of the blocks. Rows that are not aligned or too long for that
// take plain kernels.
#include <cuda_pipeline.h>

#include <algorithm>

#include "kernels/core/cuda/launch.cuh"
#include "kernels/core/memory_ops.hpp"
#include "kernels/nn/cuda/operations.hpp"
#include "kernels/nn/cuda/rows.cuh"
#include "kernels/nn/cuda/shares.hpp"
#include "kernels/nn/cuda/views.hpp"
#include "kernels/nn/cuda_sizes.hpp"

namespace zeropp::nn::cuda_ops {

namespace {

template <class T>
struct Backward {
  unsigned rows, hidden;
  float scale;  ///< 1 / hidden
  const T *dy, *x, *weight;
  const float *mean, *rstd;  ///< mean: null for RMS
  bool accumulate;
  T* dx;
  float *share_weight, *share_bias;  ///< [gridDim.x, hidden], written; share_bias: null for RMS
};

/// dx of one element, with n = (x - mean) rstd and g = dy weight.
__device__ __forceinline__ float input_gradient(float before, float r, float g, float n,
                                                float mean_g, float mean_gn) {
  return fmaf(r, fmaf(-n, mean_gn, g - mean_g), before);
}

/// Threads of a block by the packs that each has of a row: what the registers allow.
template <int kPacks>
inline constexpr unsigned kThreads = kPacks == 1 ? 1024 : 768;
/// Groups of a block: as many as fill it, each with a hardware barrier of its own.
constexpr unsigned kGroups = 8;

/// Rows that a group has in shared memory: one in use, the others on their way.
constexpr unsigned kStages = 3;
constexpr unsigned kArrays = 3;  ///< of a row: dy, x, and dx where it is added to

/// blockDim.x threads are a group, blockDim.y groups a block. A thread copies, reads and overwrites
/// packs of its own alone, so that the copies need no barrier. Shared memory: kStages * kArrays *
/// kPacks of 16 bytes per thread. kCentred: layer normalisation, else RMS.
template <class T, int kPacks, bool kCentred>
__global__ void __launch_bounds__(kThreads<kPacks>, 1) backward_kernel(const Backward<T> a) {
  constexpr int W = kPack<T>;
  constexpr unsigned kSums = kCentred ? 2 : 1;
  using Values = Pack<T, W>;
  extern __shared__ uint4 shared[];
  __shared__ float scratch[2][kSums][32];
  const unsigned step = blockDim.x * W;
  const unsigned begin = threadIdx.x * W;
  const unsigned turn = gridDim.x * blockDim.y;
  unsigned row = blockIdx.x + gridDim.x * threadIdx.y;
  const unsigned copied = a.accumulate ? kArrays : kArrays - 1;
  const auto has_pack = [&](unsigned k) { return begin + k * step < a.hidden; };

  const unsigned packs = blockDim.y * blockDim.x;
  auto* const own = reinterpret_cast<Values*>(shared) + threadIdx.y * blockDim.x + threadIdx.x;
  const auto place = [&](unsigned stage, unsigned array, unsigned k) {
    return own + ((stage * kArrays + array) * kPacks + k) * packs;
  };
  // Zeros wherever nothing is copied to: beyond a row's end, and instead of a dx that is not added.
#pragma unroll
  for (unsigned k = 0; k < kPacks; ++k) {
    for (unsigned array = has_pack(k) ? copied : 0; array < kArrays; ++array) {
      for (unsigned stage = 0; stage < kStages; ++stage) *place(stage, array, k) = {};
    }
  }
  // Begins to copy a row; nothing of one beyond the last.
  const auto fetch = [&](unsigned from_row, unsigned stage) {
    const std::size_t first = static_cast<std::size_t>(from_row) * a.hidden + begin;
#pragma unroll
    for (unsigned k = 0; k < kPacks; ++k) {
      if (from_row >= a.rows || !has_pack(k)) break;
      const auto copy = [&](unsigned array, const T* from) {
        __pipeline_memcpy_async(place(stage, array, k), from + first + k * step, sizeof(Values));
      };
      copy(0, a.dy);
      copy(1, a.x);
      if (copied == kArrays) copy(2, a.dx);
    }
    __pipeline_commit();
  };
#pragma unroll
  for (unsigned stage = 0; stage + 1 < kStages; ++stage) fetch(row + stage * turn, stage);

  Values weight[kPacks] = {};
#pragma unroll
  for (unsigned k = 0; k < kPacks; ++k) {
    if (has_pack(k)) weight[k] = load<W>(a.weight + begin + k * step);
  }
  // Shares of the weight's gradient, then of the bias'.
  Pack<float, W> share[kSums][kPacks] = {};
  float next_mean = kCentred && row < a.rows ? a.mean[row] : 0.0F;
  float next_rstd = row < a.rows ? a.rstd[row] : 0.0F;

  const auto group_barrier = [] { __barrier_sync_count(1 + threadIdx.y, blockDim.x); };
  unsigned stage = 0;
  for (int odd = 0; row < a.rows; row += turn, odd ^= 1) {
    fetch(row + (kStages - 1) * turn, stage == 0 ? kStages - 1 : stage - 1);
    const float mean = next_mean;
    const float rstd = next_rstd;
    if (row + turn < a.rows) {
      if constexpr (kCentred) next_mean = a.mean[row + turn];
      next_rstd = a.rstd[row + turn];
    }
    __pipeline_wait_prior(kStages - 1);

    float sum[kSums] = {};  // of g n, and of g
#pragma unroll
    for (unsigned k = 0; k < kPacks; ++k) {
      const Values grad = *place(stage, 0, k);
      const Values in = *place(stage, 1, k);
#pragma unroll
      for (int i = 0; i < W; ++i) {
        const float d = grad[i];
        const float n = (in[i] - mean) * rstd;
        const float g = d * weight[k][i];
        sum[0] = fmaf(g, n, sum[0]);
        share[0][k].value[i] = fmaf(d, n, share[0][k].value[i]);
        if constexpr (kCentred) {
          sum[1] += g;
          share[1][k].value[i] += d;
        }
      }
    }
    // Two arrays in turn: the group has left one when it writes it again.
    row_sums(sum, scratch[odd], group_barrier);
    const float mean_gn = a.scale * sum[0];
    const float mean_g = kCentred ? a.scale * sum[kSums - 1] : 0.0F;
    T* const out = a.dx + static_cast<std::size_t>(row) * a.hidden + begin;
#pragma unroll
    for (unsigned k = 0; k < kPacks; ++k) {
      // Read again: that costs less than the registers to keep them.
      const Values grad = *place(stage, 0, k);
      const Values in = *place(stage, 1, k);
      const Values before = *place(stage, 2, k);
      float result[W];
#pragma unroll
      for (int i = 0; i < W; ++i) {
        result[i] = input_gradient(before[i], rstd, grad[i] * weight[k][i], (in[i] - mean) * rstd,
                                   mean_g, mean_gn);
      }
      if (has_pack(k)) store(out + k * step, rounded<T>(result));
    }
    stage = stage + 1 == kStages ? 0 : stage + 1;
  }
  // A group with one row fewer than group 0 passes its barrier once more. The sums do not need
  // that: compute-sanitizer's racecheck (2025.3) reports hazards across the block's barriers below
  // where groups have passed their own unequally often.
  if (blockDim.x > 32 && row - gridDim.x * threadIdx.y < a.rows) group_barrier();

  // Group 0 adds the shares of the others, one after the other.
  static_assert(kSums * W * sizeof(float) <= kStages * kArrays * sizeof(Values));
  auto* const joined = reinterpret_cast<float*>(shared) + threadIdx.x;
  const auto for_shares = [&](auto body) {
#pragma unroll
    for (unsigned i = 0; i < kSums * kPacks * W; ++i) {
      body(joined[i * blockDim.x], share[i / (kPacks * W)][i / W % kPacks].value[i % W]);
    }
  };
  for (unsigned group = 1; group < blockDim.y; ++group) {
    __syncthreads();
    if (threadIdx.y == group) for_shares([](float& there, float& own) { there = own; });
    __syncthreads();
    if (threadIdx.y == 0) for_shares([](float& there, float& own) { own += there; });
  }
  if (threadIdx.y != 0) return;
#pragma unroll
  for (unsigned k = 0; k < kPacks; ++k) {
    if (!has_pack(k)) break;
    const std::size_t at = static_cast<std::size_t>(blockIdx.x) * a.hidden + begin + k * step;
    store(a.share_weight + at, share[0][k]);
    if constexpr (kCentred) store(a.share_bias + at, share[1][k]);
  }
}

/// The plain form of dx: a block a row, which is read twice.
template <class T>
__global__ void input_gradient_kernel(const Backward<T> a) {
  __shared__ float scratch[2][32];
  const std::size_t row = blockIdx.x;
  const bool centred = a.mean != nullptr;
  const float m = centred ? a.mean[row] : 0.0F;
  const float r = a.rstd[row];
  const auto for_elements = [&](auto body) {
    for (std::size_t j = threadIdx.x; j < a.hidden; j += blockDim.x) {
      const std::size_t at = row * a.hidden + j;
      body(at, to_float(a.dy[at]) * to_float(a.weight[j]), (to_float(a.x[at]) - m) * r);
    }
  };
  float sum[2] = {0.0F, 0.0F};
  for_elements([&](std::size_t, float g, float n) {
    sum[0] += g;
    sum[1] = fmaf(g, n, sum[1]);
  });
  row_sums(sum, scratch);
  for_elements([&](std::size_t at, float g, float n) {
    const float before = a.accumulate ? to_float(a.dx[at]) : 0.0F;
    const float mean_g = centred ? a.scale * sum[0] : 0.0F;
    a.dx[at] = rounded<T>(input_gradient(before, r, g, n, mean_g, a.scale * sum[1]));
  });
}

/// The plain form of the shares: a thread a column, gridDim.y shares, rows in turn.
template <class T>
__global__ void shares_kernel(const Backward<T> a) {
  const std::size_t j = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (j >= a.hidden) return;
  float d_weight = 0.0F;
  float d_bias = 0.0F;
  for (std::size_t row = blockIdx.y; row < a.rows; row += gridDim.y) {
    const float d = to_float(a.dy[row * a.hidden + j]);
    const float m = a.mean != nullptr ? a.mean[row] : 0.0F;
    const float n = (to_float(a.x[row * a.hidden + j]) - m) * a.rstd[row];
    d_weight = fmaf(d, n, d_weight);
    d_bias += d;
  }
  a.share_weight[blockIdx.y * a.hidden + j] = d_weight;
  if (a.share_bias != nullptr) a.share_bias[blockIdx.y * a.hidden + j] = d_bias;
}

/// Bytes of shared memory that a block may have on the current GPU: 227 KiB on an H100, 163 on an
/// A100.
std::size_t most_shared_memory() {
  static const int bytes = [] {
    int device = 0;
    int most = 0;
    cuda::check(cudaGetDevice(&device));
    cuda::check(cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device));
    return most;
  }();
  return static_cast<std::size_t>(bytes);
}

/// False, and nothing is done, where the GPU has not the shared memory.
template <int kPacks, class T>
bool try_launch(const Backward<T>& arguments, cudaStream_t stream) {
  const unsigned threads = threads_for(arguments.hidden / kPack<T>, kPacks, kThreads<kPacks>);
  const unsigned groups = std::min(kThreads<kPacks> / threads, kGroups);
  const std::size_t shared = std::size_t{16} * kStages * kArrays * kPacks * threads * groups;
  if (shared > most_shared_memory()) return false;
  const auto kernel = arguments.mean != nullptr ? backward_kernel<T, kPacks, true>
                                                : backward_kernel<T, kPacks, false>;
  cuda::check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                   static_cast<int>(shared)));
  kernel<<<static_cast<unsigned>(cuda_sizes::norm_shares(arguments.rows)), dim3(threads, groups),
           shared, stream>>>(arguments);
  cuda::check_launch();
  return true;
}

template <class T>
void launch_plain(const Backward<T>& arguments, cudaStream_t stream) {
  input_gradient_kernel<<<static_cast<unsigned>(arguments.rows), cuda::kThreads, 0, stream>>>(
      arguments);
  cuda::check_launch();
  const dim3 grid(static_cast<unsigned>((arguments.hidden + cuda::kThreads - 1) / cuda::kThreads),
                  static_cast<unsigned>(cuda_sizes::norm_shares(arguments.rows)));
  shares_kernel<<<grid, cuda::kThreads, 0, stream>>>(arguments);
  cuda::check_launch();
}

}  // namespace

void norm_backward(const NnContext& context, const NormShape& shape, ConstView dy, ConstView x,
                   ConstView weight, ConstView mean, ConstView rstd, bool accumulate_dx, View dx,
                   bool accumulate, View d_weight, View d_bias) {
  const std::size_t rows = shape.rows;
  const std::size_t hidden = shape.hidden;
  const bool centred = mean.count > 0;
  require_gradient(d_weight, hidden, d_weight.dtype, weight.dtype, "norm weight gradient");
  if (centred) {
    require_gradient(d_bias, hidden, d_weight.dtype, weight.dtype, "norm bias gradient");
  }
  const std::size_t shares = cuda_sizes::norm_shares(rows);
  float* const share_weight = elements<float>(
      context.workspace, cuda_sizes::norm_workspace(rows, hidden), "norm workspace");
  const cudaStream_t stream = cuda::stream_of(context.stream);
  if (rows == 0) {
    if (accumulate) return;
    for (const View& sum : {d_weight, d_bias}) cuda_memory_ops()->clear(sum, context.stream);
    return;
  }
  float* const share_bias = centred ? share_weight + shares * hidden : nullptr;
  with_type(x.dtype, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    const Backward<T> arguments{
        .rows = static_cast<unsigned>(rows),
        .hidden = static_cast<unsigned>(hidden),
        .scale = 1.0F / static_cast<float>(hidden),
        .dy = elements<T>(dy, rows * hidden, "norm output gradient"),
        .x = elements<T>(x, rows * hidden, "norm input"),
        .weight = elements<T>(weight, hidden, "norm weight"),
        .mean = centred ? elements<float>(mean, rows, "norm mean") : nullptr,
        .rstd = elements<float>(rstd, rows, "norm rstd"),
        .accumulate = accumulate_dx,
        .dx = elements<T>(dx, rows * hidden, "norm input gradient"),
        .share_weight = share_weight,
        .share_bias = share_bias};
    const bool aligned =
        rows_aligned<T>(hidden, {arguments.dy, arguments.x, arguments.weight, arguments.dx});
    const std::size_t packs = hidden / kPack<T>;
    if (aligned && packs <= kThreads<1> && try_launch<1>(arguments, stream)) return;
    if (aligned && packs <= 2 * kThreads<2> && try_launch<2>(arguments, stream)) return;
    launch_plain(arguments, stream);
  });
  if (centred) {
    join_shares(context.stream, shares, hidden, accumulate,
                {{share_weight, d_weight}, {share_bias, d_bias}});
  } else {
    join_shares(context.stream, shares, hidden, accumulate, {{share_weight, d_weight}});
  }
}

}  // namespace zeropp::nn::cuda_ops
