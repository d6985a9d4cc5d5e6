// Checks of what a run is given against its plan, where a mismatch is a programming error,
// std::invalid_argument; and of plans.
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <stdexcept>
#include <string_view>

#include "kernels/codec/spec.hpp"
#include "kernels/core/view.hpp"
#include "lib/base/error.hpp"
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

/// Refuses chunks where a whole image has one scale: each chunk would have another scale. Throws
/// Error(usage); an unknown codec is left to the code that binds it.
inline void require_one_chunk(const char* operation, const codec::CodecSpec& spec,
                              std::size_t depth) {
  const codec::FormatInfo* const info = codec::find_info(spec.format);
  if (depth <= 1 || info == nullptr || !info->scales_images) return;
  throw Error(ExitCode::usage,
              fmt::format("{}: codec '{}' has one scale for all that is sent at once, so that its "
                          "bits would depend on a pipeline depth of {}: give 1",
                          operation, codec::to_string(spec), depth));
}

/// Elements that `ranks` strided parts span.
inline std::size_t span_of(const Parts& parts, std::size_t ranks) {
  return (ranks - 1) * parts.stride + parts.count;
}

}  // namespace zeropp::collective
