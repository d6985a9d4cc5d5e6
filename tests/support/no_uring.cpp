// A function of liburing that LD_PRELOAD replaces: it fails as on a kernel that forbids io_uring,
// as containers do.
#include <cerrno>

extern "C" int io_uring_queue_init(unsigned /*entries*/, void* /*ring*/, unsigned /*flags*/) {
  return -EPERM;
}
