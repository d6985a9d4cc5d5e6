// Functions of uring.cpp for a build without liburing.
#include "lib/base/block_io.hpp"

namespace zeropp {

std::unique_ptr<BlockIo> make_ring(int /*file*/, std::size_t /*depth*/) { return nullptr; }

const char* why_no_ring() {
  return "this build has no io_uring: install liburing-dev and build again";
}

}  // namespace zeropp
