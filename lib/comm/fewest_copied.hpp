// Size from which on copy engines move pieces, in runs and in plans.
#pragma once

#include <cstddef>

namespace zeropp::comm {

/// Bytes of a piece from which copy engines take it, between places in registered memory. Shorter
/// ones arrive as soon or sooner by a kernel: an operation of the copy engines takes some 30 us to
/// begin and end.
inline constexpr std::size_t kFewestCopied = std::size_t{4} << 20U;

}  // namespace zeropp::comm
