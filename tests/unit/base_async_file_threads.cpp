// ctest: name=base_async_file_threads program=own timeout=30
// A file whose threads cannot all be started: an Error that says so, and nothing is left of those
// that were. The program's own pthread_create() starts as many as a test allows.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>

#include <atomic>
#include <cerrno>
#include <filesystem>
#include <iterator>
#include <limits>

#include "lib/base/async_file.hpp"
#include "lib/base/error.hpp"
#include "tests/support/temporary_folder.hpp"

namespace {
std::atomic<int> threads_left = std::numeric_limits<int>::max();
}  // namespace

/// Replaces the C library's function.
extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* attributes,
                              void* (*body)(void*), void* argument) {
  using Create = int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  static const auto create = reinterpret_cast<Create>(::dlsym(RTLD_NEXT, "pthread_create"));
  return threads_left-- > 0 ? create(thread, attributes, body, argument) : EAGAIN;
}

namespace zeropp {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

std::ptrdiff_t open_files() {
  return std::distance(fs::directory_iterator("/proc/self/fd"), fs::directory_iterator{});
}

TEST(AsyncFile, AThreadThatCannotStartIsAnError) {
  const test::TemporaryFolder folder;
  const auto no_ring = [](int, std::size_t) { return std::unique_ptr<BlockIo>(); };
  const std::ptrdiff_t before = open_files();
  for (const int started : {0, 1, 3}) {
    threads_left = started;
    try {
      const AsyncFile file(folder.path(), 1 << 16U, {.queue_depth = 2, .threads = 2}, no_ring);
      ADD_FAILURE() << "4 threads out of " << started;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::environment);
      EXPECT_THAT(error.what(), AllOf(HasSubstr(folder.path().string()),
                                      HasSubstr("of the 4 threads"), HasSubstr("ulimit -u")));
    }
    EXPECT_EQ(open_files(), before);
  }
}

}  // namespace
}  // namespace zeropp
