#include "apps/sweep/sizes.hpp"

#include <limits>

namespace zeropp::sweep {

std::vector<std::size_t> sizes(std::size_t minimum, std::size_t maximum, std::size_t step,
                               std::size_t factor) {
  std::vector<std::size_t> all;
  std::size_t size = minimum;
  while (size <= maximum) {
    all.push_back(size);
    const std::size_t room = std::numeric_limits<std::size_t>::max();
    if (factor > 1 ? size > room / factor : size > room - step) break;
    const std::size_t next = factor > 1 ? size * factor : size + step;
    if (next == size) break;  // 0 times a factor, or a step of 0
    size = next;
  }
  return all;
}

}  // namespace zeropp::sweep
