// Size of the caches that operands must not be found in.
#pragma once

#include <cstddef>

#include "lib/device/device.hpp"

namespace zeropp::kernels {

/// Bytes of the GPU's L2, or of the host's largest cache: as the kernel of the system lists those
/// of the first processor, else as the C library knows it, else 64 MiB.
std::size_t cache_bytes(const Device& device, int gpu);

/// Operands of all sets together: so many caches.
inline constexpr std::size_t kCachesFilled = 4;

}  // namespace zeropp::kernels
