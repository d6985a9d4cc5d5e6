// Options of files that threads of their own read and write (async_file.hpp).
#pragma once

#include <cstddef>

namespace zeropp {

struct AsyncFileOptions {
  std::size_t block_size = std::size_t{1} << 20U;  ///< bytes of a request, a multiple of a page
  std::size_t queue_depth = 8;                     ///< requests of a thread in flight
  std::size_t threads = 1;
  bool single_submit = false;  ///< a system call for each request, not for all that there are
  bool overlap_events = true;  ///< new requests before all earlier ones are complete

  bool operator==(const AsyncFileOptions&) const = default;
};

}  // namespace zeropp
