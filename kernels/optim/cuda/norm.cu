// Sums of squares on the GPU, in the order that OptimOps::sum_of_squares names: one launch for the
// blocks of all arrays, one for what is left of each.
#include "kernels/core/cuda/launch.cuh"
#include "kernels/optim/cuda/operations.hpp"
#include "kernels/optim/cuda/quads.cuh"

namespace zeropp::optim::cuda_ops {

namespace {

constexpr unsigned kPieceThreads = 256;
constexpr unsigned kPieceBlocks = 4;  ///< resident on a multiprocessor: 64 registers a thread
constexpr unsigned kArrayThreads = 1024;

static_assert(kNormLanes == 32, "a lane of a block is a lane of a warp");

/// The sum of term(0 .. n), n <= kNormBlock, in lane 0 of the warp that calls.
template <class Term>
__device__ double block_sum(std::size_t n, const Term& term) {
  constexpr unsigned kRows = kNormBlock / kNormLanes;
  const unsigned lane = threadIdx.x % kNormLanes;
  double sum = 0;
  if (n == kNormBlock) {  // a known count, so that the loads come before the sums
#pragma unroll
    for (unsigned row = 0; row < kRows; ++row) sum += term(lane + row * kNormLanes);
  } else {
    for (std::size_t i = lane; i < n; i += kNormLanes) sum += term(i);
  }
  for (unsigned half = kNormLanes / 2; half > 0; half /= 2) {
    sum += __shfl_down_sync(0xFFFFFFFFU, sum, half);
  }
  return sum;
}

/// A warp a block of kNormBlock terms, the block's warps in turn.
template <class Term>
__device__ void block_sums(std::size_t n, const Term& term, double* sums) {
  const unsigned warps = blockDim.x / kNormLanes;
  for (std::size_t block = threadIdx.x / kNormLanes; block < norm_blocks(n); block += warps) {
    const std::size_t first = block * kNormBlock;
    const double sum = block_sum(n - first < kNormBlock ? n - first : kNormBlock,
                                 [&](std::size_t i) { return term(first + i); });
    if (threadIdx.x % kNormLanes == 0) sums[block] = sum;
  }
}

__global__ void __launch_bounds__(kPieceThreads, kPieceBlocks)
    square_pieces_kernel(float factor, const NormPiece* pieces) {
  const NormPiece piece = pieces[blockIdx.x];
  const float* const values = global(piece.values);
  block_sums(
      piece.count,
      [&](std::size_t i) {
        const double x = values[i] * factor;  // rounded to fp32
        return x * x;                         // exact in fp64
      },
      piece.sums);
}

/// A thread block an array, level by level. Each level's sums are read by other threads of the
/// block than wrote them.
__global__ void __launch_bounds__(kArrayThreads) add_block_sums_kernel(const NormArray* arrays) {
  const NormArray array = arrays[blockIdx.x];
  const double* terms = array.sums;
  double* sums = array.sums + array.blocks;
  for (std::size_t count = array.blocks; count > 1; count = norm_blocks(count)) {
    block_sums(
        count, [&](std::size_t i) { return terms[i]; }, sums);
    __syncthreads();
    terms = sums;
    sums += norm_blocks(count);
  }
  if (threadIdx.x == 0) *array.sum = array.blocks == 0 ? 0.0 : *terms;
}

}  // namespace

void sum_of_squares(float factor, std::span<const NormPiece> pieces,
                    std::span<const NormArray> arrays, StreamHandle stream) {
  const cudaStream_t native = cuda::stream_of(stream);
  if (!pieces.empty()) {
    square_pieces_kernel<<<static_cast<unsigned>(pieces.size()), kPieceThreads, 0, native>>>(
        factor, pieces.data());
    cuda::check_launch();
  }
  if (!arrays.empty()) {
    add_block_sums_kernel<<<static_cast<unsigned>(arrays.size()), kArrayThreads, 0, native>>>(
        arrays.data());
    cuda::check_launch();
  }
}

}  // namespace zeropp::optim::cuda_ops
