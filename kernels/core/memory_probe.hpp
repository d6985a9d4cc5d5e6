// The plainest passes over memory that a back end has: what bandwidth can be at most. A kernel that
// moves bytes is compared with them. Views of one call do not overlap; work is enqueued on the
// stream.
//
// Throws std::invalid_argument for views of different sizes, and for memory that the back end
// cannot reach: a defect of the caller.
#pragma once

#include "kernels/core/stream.hpp"
#include "kernels/core/view.hpp"

namespace zeropp {

struct MemoryProbe {
  /// Copies bytes: memcpy of an equal part by each thread of the host, the driver's copy on a GPU.
  void (*copy)(ConstView source, View destination, StreamHandle);
  /// Reads every whole 16 bytes of `source` once; the xor of its 32-bit words goes to the one
  /// element of `result` (fp32, its bits), which lies in the back end's memory. The back end may
  /// combine it with what lay there: clear it to get the xor itself.
  void (*read)(ConstView source, View result, StreamHandle);
  /// All bytes zero: memset of an equal part by each thread, or the driver's.
  void (*write)(View destination, StreamHandle);
};

/// The host's table, over all threads of its kernels.
const MemoryProbe& host_memory_probe();
/// The GPU's table; null in a build without CUDA.
const MemoryProbe* cuda_memory_probe();

}  // namespace zeropp
