// Function of liburing, replaced by LD_PRELOAD with that of a kernel that forbids io_uring, as
// containers do.
#include <cerrno>

extern "C" int io_uring_queue_init(unsigned /*entries*/, void* /*ring*/, unsigned /*flags*/) {
  return -EPERM;
}
