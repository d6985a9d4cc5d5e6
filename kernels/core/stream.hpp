// The stream that a kernel is enqueued on. On the host there is one, inline: native is null and the
// work is done when the launcher returns. On CUDA native is a cudaStream_t. Not owned.
#pragma once

#include <cstdint>

namespace zeropp {

enum class Backend : std::uint8_t { host, cuda };

struct StreamHandle {
  void* native = nullptr;
};

}  // namespace zeropp
