// Checks of what a run is given against its plan. A mismatch is a programming error:
// std::invalid_argument.
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <stdexcept>
#include <string_view>

#include "kernels/core/view.hpp"
#include "lib/collective/collective.hpp"

namespace zeropp::collective {

/// A view of at least `count` elements of `dtype`.
inline void require_view(const char* what, const ConstView& view, std::size_t count, Dtype dtype) {
  if (view.count >= count && view.dtype == dtype) return;
  throw std::invalid_argument(
      fmt::format("collective: {} has {} elements of {}, planned were {} of {}", what, view.count,
                  name_of(view.dtype), count, name_of(dtype)));
}

inline void require_workspace(std::size_t lent, std::size_t needed) {
  if (lent >= needed) return;
  throw std::invalid_argument(
      fmt::format("collective: a workspace of {} bytes was lent, {} are needed", lent, needed));
}

/// Elements that `ranks` strided parts span.
inline std::size_t span_of(const Parts& parts, std::size_t ranks) {
  return (ranks - 1) * parts.stride + parts.count;
}

}  // namespace zeropp::collective
