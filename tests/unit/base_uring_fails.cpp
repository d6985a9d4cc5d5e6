// ctest: name=base_uring_fails timeout=60 program=own
// A ring that the kernel no longer serves: the program defines functions of liburing. The call that
// waits for a transfer gets the error, and does not wait for ever. A temporary error is no error.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <memory>
#include <span>
#include <string>

#include "lib/base/async_file.hpp"
#include "lib/base/error.hpp"
#include "tests/support/temporary_folder.hpp"

namespace {
std::atomic<int> error{0};
std::atomic<int> failures{0};  ///< that are left
}  // namespace

struct io_uring;

/// Replaces liburing's function.
extern "C" int io_uring_submit(io_uring* /*ring*/) { return error; }

extern "C" int io_uring_submit_and_wait(io_uring* ring, unsigned wait) {
  using Submit = int (*)(io_uring*, unsigned);
  static const auto submit =
      reinterpret_cast<Submit>(::dlsym(RTLD_NEXT, "io_uring_submit_and_wait"));
  return failures-- > 0 ? error.load() : submit(ring, wait);
}

namespace zeropp {
namespace {

constexpr std::size_t kPages = 8;
constexpr std::size_t kBytes = kPages * AsyncFile::kPage;
constexpr int kAlways = 1'000'000'000;

using Memory = std::unique_ptr<std::byte, decltype(&std::free)>;

Memory pages(std::byte value) {
  Memory memory(static_cast<std::byte*>(std::aligned_alloc(AsyncFile::kPage, kBytes)), std::free);
  std::fill_n(memory.get(), kBytes, value);
  return memory;
}

class UringFails : public testing::Test {
 protected:
  void SetUp() override {
    if (*why_no_ring() != '\0') GTEST_SKIP() << why_no_ring();
  }
  void TearDown() override { failures = 0; }

  /// Writes all pages, and reads them back where that went well.
  void write_and_read() {
    const Memory written = pages(std::byte{0x5A});
    const Memory read = pages(std::byte{0});
    file_.wait(file_.write(0, {written.get(), kBytes}));
    file_.wait(file_.read(0, {read.get(), kBytes}));
    EXPECT_TRUE(std::equal(written.get(), written.get() + kBytes, read.get()));
  }

  test::TemporaryFolder folder_;
  AsyncFile file_{
      folder_.path(), kBytes, {.block_size = AsyncFile::kPage, .queue_depth = 3, .threads = 1}};
};

TEST_F(UringFails, ALastingErrorIsThatOfEveryTransfer) {
  error = -EBADR;
  failures = kAlways;
  for (int i = 0; i < 3; ++i) {
    EXPECT_THAT([&] { write_and_read(); },
                testing::ThrowsMessage<Error>(testing::HasSubstr(folder_.path().string())));
  }
}

TEST_F(UringFails, AnErrorThatPassesIsNone) {
  for (const int passes : {-EINTR, -EAGAIN, -EBUSY}) {
    error = passes;
    failures = 5;
    EXPECT_NO_THROW(write_and_read());
  }
}

}  // namespace
}  // namespace zeropp
