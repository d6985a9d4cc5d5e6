// Flags in the memory of other GPUs that are raised by a kernel. A flag is a 64-bit number that
// only grows; a stream waits for it by cuStreamWaitValue64, which takes no multiprocessor.
#pragma once

#include <cstdint>

#include "kernels/core/stream.hpp"

namespace zeropp::cuda {

/// Raises number `index` of the numbers at `pages[p]` to `value`, unless it is as large already,
/// for every rank p below `ranks`, at most 1024, but `own`. Stores that kernels of this stream made
/// before, into any memory, are seen by whoever sees the number. `pages` lies in memory of the GPU.
void raise_flags(std::uint64_t* const* pages, unsigned ranks, unsigned own, unsigned index,
                 std::uint64_t value, StreamHandle stream);

}  // namespace zeropp::cuda
