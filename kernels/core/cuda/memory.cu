// Memory operations on the GPU. Copies and clears are the driver's; conversions use 16-byte
// accesses where both sides are aligned.
#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <type_traits>

#include "kernels/core/copy_maths.hpp"
#include "kernels/core/cuda/launch.cuh"
#include "kernels/core/digest.hpp"
#include "kernels/core/memory_ops.hpp"

namespace zeropp {

namespace {

using cuda::stream_of;

void require_equal_counts(const ConstView& source, const ConstView& destination, const char* what) {
  if (source.count == destination.count) return;
  throw std::invalid_argument(std::string(what) + ": " + std::to_string(source.count) +
                              " elements into " + std::to_string(destination.count));
}

void require_device(const ConstView& view, const char* what) {
  if (view.kind == MemoryKind::device || view.count == 0) return;
  throw std::invalid_argument(std::string(what) + ": the GPU was given host memory");
}

/// Memory that kernels address: page-locked memory of the host too, over the GPU's link.
void require_addressable(const ConstView& view, const char* what) {
  if (view.kind != MemoryKind::pinned) require_device(view, what);
}

void clear(View values, StreamHandle stream) {
  require_device(values, "clear");
  if (values.count == 0) return;
  cuda::check(cudaMemsetAsync(values.data, 0, values.bytes(), stream_of(stream)));
}

void copy(ConstView source, View destination, StreamHandle stream) {
  require_equal_counts(source, destination, "copy");
  if (source.dtype != destination.dtype) {
    throw std::invalid_argument("copy: " + std::string(name_of(source.dtype)) + " into " +
                                std::string(name_of(destination.dtype)) + ": convert instead");
  }
  if (source.count == 0) return;
  cuda::check(cudaMemcpyAsync(destination.data, source.data, source.bytes(), cudaMemcpyDefault,
                              stream_of(stream)));
}

/// Eight values per thread and turn; one value in a ragged tail, and in arrays that are not aligned
/// to 16 bytes.
template <class From, class To>
struct Convert {
  const From* from;
  To* to;
  std::size_t n;
  bool aligned;

  static constexpr int kWidth = 8;

  __device__ void operator()(std::size_t chunk) const {
    const std::size_t first = chunk * kWidth;
    if (aligned && first + kWidth <= n) {
      alignas(16) From in[kWidth];
      alignas(16) To out[kWidth];
#pragma unroll
      for (std::size_t part = 0; part < sizeof(in) / 16; ++part) {
        reinterpret_cast<uint4*>(in)[part] = reinterpret_cast<const uint4*>(from + first)[part];
      }
#pragma unroll
      for (int i = 0; i < kWidth; ++i) out[i] = saturating_cast<To>(to_float(in[i]));
#pragma unroll
      for (std::size_t part = 0; part < sizeof(out) / 16; ++part) {
        reinterpret_cast<uint4*>(to + first)[part] = reinterpret_cast<const uint4*>(out)[part];
      }
      return;
    }
    const std::size_t last = first + kWidth < n ? first + kWidth : n;
    for (std::size_t i = first; i < last; ++i) to[i] = saturating_cast<To>(to_float(from[i]));
  }
};

void convert(ConstView source, View destination, StreamHandle stream) {
  require_equal_counts(source, destination, "convert");
  require_addressable(source, "convert");
  require_addressable(destination, "convert");
  if (source.dtype == destination.dtype) return copy(source, destination, stream);
  with_type(source.dtype, [&](auto* from_tag) {
    with_type(destination.dtype, [&](auto* to_tag) {
      using From = std::remove_pointer_t<decltype(from_tag)>;
      using To = std::remove_pointer_t<decltype(to_tag)>;
      if constexpr (!std::is_same_v<From, To>) {
        const auto aligned = [](const void* data) {
          return reinterpret_cast<std::uintptr_t>(data) % 16 == 0;
        };
        using Body = Convert<From, To>;
        cuda::for_each((source.count + Body::kWidth - 1) / Body::kWidth, stream,
                       Body{source.as<From>(), destination.as<To>(), source.count,
                            aligned(source.data) && aligned(destination.data)});
      }
    });
  });
}

template <class Value, class Copy, class Difference>
struct Subtract {
  const Value* values;
  const Copy* copy;
  Difference* difference;
  __device__ void operator()(std::size_t i) const {
    difference[i] = difference_to<Difference>(to_float(values[i]), to_float(copy[i]));
  }
};

void subtract(ConstView values, ConstView copy, View difference, StreamHandle stream) {
  require_equal_counts(values, copy, "subtract");
  require_equal_counts(values, difference, "subtract");
  require_device(values, "subtract");
  require_device(copy, "subtract");
  require_device(difference, "subtract");
  with_type(values.dtype, [&](auto* value_tag) {
    with_type(copy.dtype, [&](auto* copy_tag) {
      with_type(difference.dtype, [&](auto* to_tag) {
        using Value = std::remove_pointer_t<decltype(value_tag)>;
        using Copy = std::remove_pointer_t<decltype(copy_tag)>;
        using To = std::remove_pointer_t<decltype(to_tag)>;
        cuda::for_each(
            values.count, stream,
            Subtract<Value, Copy, To>{values.as<Value>(), copy.as<Copy>(), difference.as<To>()});
      });
    });
  });
}

/// Adds what the threads of a block have to *sum: additions in one place of the memory of all
/// blocks are slow, so that each block makes one.
__device__ void add_of_block(unsigned long long own, unsigned long long* sum) {
  __shared__ unsigned long long of_block;
  if (threadIdx.x == 0) of_block = 0;
  __syncthreads();
#pragma unroll
  for (int half = 16; half > 0; half /= 2) own += __shfl_down_sync(0xFFFFFFFFU, own, half);
  if (threadIdx.x % 32 == 0) atomicAdd(&of_block, own);
  __syncthreads();
  if (threadIdx.x == 0) atomicAdd(sum, of_block);
}

/// Reads 16 bytes a thread and turn from the first multiple of 16 bytes on; the last block adds the
/// words before it and after the last one, and the bytes after these.
__global__ void digest_kernel(const unsigned char* bytes, std::size_t count, std::size_t head,
                              std::uint32_t place, unsigned long long* sum) {
  const std::size_t words = count / 4;
  const std::size_t quads = (words - head) / 4;
  const auto* const from = reinterpret_cast<const uint4*>(bytes + head * 4);
  const std::size_t step = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  unsigned long long own = 0;
  for (std::size_t q = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x; q < quads;
       q += step) {
    const uint4 four = from[q];
    const std::uint32_t at = place + static_cast<std::uint32_t>(head + q * 4);
    own += four.x * digest_multiplier(at) + four.y * digest_multiplier(at + 1) +
           four.z * digest_multiplier(at + 2) + four.w * digest_multiplier(at + 3);
  }
  if (blockIdx.x + 1 == gridDim.x && threadIdx.x == 0) {
    const auto add_word = [&](std::size_t i) {
      const std::uint32_t word = reinterpret_cast<const std::uint32_t*>(bytes)[i];
      own += word * digest_multiplier(place + static_cast<std::uint32_t>(i));
    };
    for (std::size_t i = 0; i < head; ++i) add_word(i);
    for (std::size_t i = head + quads * 4; i < words; ++i) add_word(i);
    std::uint32_t last = 0;
    for (std::size_t i = words * 4; i < count; ++i) {
      last |= static_cast<std::uint32_t>(bytes[i]) << (8 * (i - words * 4));
    }
    own += last * digest_multiplier(place + static_cast<std::uint32_t>(words));
  }
  add_of_block(own, sum);
}

void digest(ConstView values, std::uint64_t first, std::uint64_t* sum, StreamHandle stream) {
  require_addressable(values, "digest");
  const std::size_t count = values.bytes();
  if (count == 0) return;
  const std::size_t to_aligned = (-reinterpret_cast<std::uintptr_t>(values.data) & 15U) / 4;
  const std::size_t head = std::min(to_aligned, count / 4);
  digest_kernel<<<cuda::grid_for(count / 16), cuda::kThreads, 0, stream_of(stream)>>>(
      static_cast<const unsigned char*>(values.data), count, head,
      static_cast<std::uint32_t>(first), reinterpret_cast<unsigned long long*>(sum));
  cuda::check_launch();
}

}  // namespace

const MemoryOps* cuda_memory_ops() {
  static constexpr MemoryOps kOps{
      .clear = clear, .copy = copy, .convert = convert, .subtract = subtract, .digest = digest};
  return &kOps;
}

}  // namespace zeropp
