// ctest: name=base_host timeout=60
// A thread waits for its processor while another thread has it. Skipped where the kernel does not
// tell.
#include <gtest/gtest.h>
#include <sched.h>

#include <atomic>
#include <filesystem>
#include <thread>

#include "lib/base/host.hpp"

namespace zeropp {
namespace {

TEST(Host, AThreadWaitsWhileAnotherHasItsProcessor) {
  if (!std::filesystem::exists("/proc/thread-self/schedstat")) GTEST_SKIP();
  std::atomic<bool> done{false};
  std::thread waits([&] {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(static_cast<std::size_t>(allowed_cpus().front()), &one);
    ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
    std::thread other([&] {  // inherits the mask
      while (!done) {
      }
    });
    const double before = seconds_without_processor();
    while (seconds_without_processor() < before + 0.05) {
    }
    done = true;
    other.join();
  });
  waits.join();
}

}  // namespace
}  // namespace zeropp
