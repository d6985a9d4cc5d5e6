// Operations on memory as such: one table per back end, chosen by the Device. Work is enqueued on
// the given stream; nothing is allocated. Views of one call do not overlap.
//
// Throws std::invalid_argument when two views do not fit each other, or when a view is of memory
// that the back end cannot reach: a defect of the caller.
#pragma once

#include <cstdint>

#include "kernels/core/stream.hpp"
#include "kernels/core/view.hpp"

namespace zeropp {

struct MemoryOps {
  /// All bytes zero.
  void (*clear)(View values, StreamHandle);
  /// Copies bytes: counts and dtypes equal. A device back end copies between any two kinds of
  /// memory; host memory may be used again when the stream is done.
  void (*copy)(ConstView source, View destination, StreamHandle);
  /// destination <- source, saturating; counts equal, dtypes any. Both in the back end's memory, or
  /// page-locked.
  void (*convert)(ConstView source, View destination, StreamHandle);
  /// difference <- values - copy (copy_maths.hpp), saturating; counts equal, dtypes any. All in the
  /// back end's memory.
  void (*subtract)(ConstView values, ConstView copy, View difference, StreamHandle);
  /// Adds the digest (digest.hpp) of the bytes of `values` to *sum. `first`: the place of the first
  /// 32-bit word, below 2^32, so that several views are digested as one array. `values` begins at a
  /// multiple of 4 bytes; it and `sum` are in the back end's memory, or page-locked.
  void (*digest)(ConstView values, std::uint64_t first, std::uint64_t* sum, StreamHandle);
};

/// The host's table (Kokkos).
const MemoryOps& host_memory_ops();
/// The GPU's table; null in a build without CUDA.
const MemoryOps* cuda_memory_ops();

}  // namespace zeropp
