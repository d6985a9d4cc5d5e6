#include "apps/kernels/cache.hpp"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

namespace zeropp::kernels {

namespace {

/// The largest "32768K" of the files `size`; 0 where there are none.
std::size_t listed_cache() {
  std::size_t largest = 0;
  std::error_code absent;
  for (const auto& entry :
       std::filesystem::directory_iterator("/sys/devices/system/cpu/cpu0/cache", absent)) {
    std::ifstream file(entry.path() / "size");
    std::size_t number = 0;
    char unit = 0;
    if (!(file >> number >> unit)) continue;
    largest = std::max(largest, number << (unit == 'M' ? 20U : 10U));
  }
  return largest;
}

}  // namespace

std::size_t cache_bytes(const Device& device, int gpu) {
  if (device.backend == Backend::cuda) {
    return visible_gpus().at(static_cast<std::size_t>(gpu)).l2_cache;
  }
  if (const std::size_t listed = listed_cache(); listed > 0) return listed;
  constexpr std::size_t kUnknown = std::size_t{64} << 20U;
  const long known = ::sysconf(_SC_LEVEL3_CACHE_SIZE);
  return known > 0 ? static_cast<std::size_t>(known) : kUnknown;
}

}  // namespace zeropp::kernels
