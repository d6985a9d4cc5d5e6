// ctest: name=base_async_file timeout=120 labels=sanitize
// A file that threads read and write: the written bytes are read back, whatever the sizes, the path
// to the kernel and the order. A transfer that comes in parts continues, a transfer that fails
// gives the reason, and nothing is left in the folder.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <fstream>
#include <random>

#include "lib/base/async_file.hpp"
#include "lib/base/error.hpp"

namespace zeropp {
namespace {

namespace fs = std::filesystem;
constexpr std::size_t kPage = AsyncFile::kPage;
constexpr std::byte kPoison{0xA5};

struct FreeMemory {
  void operator()(std::byte* memory) const { std::free(memory); }
};
/// Pages, poisoned.
class Pages {
 public:
  explicit Pages(std::size_t bytes)
      : memory_(static_cast<std::byte*>(std::aligned_alloc(kPage, bytes))), bytes_(bytes) {
    std::fill_n(memory_.get(), bytes, kPoison);
  }
  [[nodiscard]] std::span<std::byte> span() const { return {memory_.get(), bytes_}; }

 private:
  std::unique_ptr<std::byte, FreeMemory> memory_;
  std::size_t bytes_;
};

class Folder {
 public:
  Folder() {
    std::string name = (fs::temp_directory_path() / "zeropp_async_XXXXXX").string();
    path_ = ::mkdtemp(name.data());
  }
  ~Folder() {
    EXPECT_TRUE(fs::is_empty(path_)) << "a file is left";
    fs::remove_all(path_);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  [[nodiscard]] const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

/// Transfers at most two thirds of what is asked for, in whole pages where that is a page, as a
/// kernel may; then fails with `error` from request `fails_at` on.
class Unwilling final : public BlockIo {
 public:
  Unwilling(int file, std::size_t fails_at, int error)
      : calls_(make_calls(file)), fails_at_(fails_at), error_(error) {}
  void begin(std::span<const BlockRequest> requests, bool each) override {
    for (BlockRequest request : requests) {
      if (request.bytes > kPage) request.bytes = request.bytes * 2 / 3 / kPage * kPage;
      if (request.bytes == 0) request.bytes = kPage;
      calls_->begin({&request, 1}, each);
    }
    asked_.insert(asked_.end(), requests.begin(), requests.end());
  }
  BlockResult end() override {
    BlockResult result = calls_->end();
    result.request = asked_.front();
    asked_.pop_front();
    if (number_++ % 3 == 1 && number_ < fails_at_) result.bytes = -EINTR;
    if (number_ > fails_at_) result.bytes = error_;
    return result;
  }

 private:
  std::unique_ptr<BlockIo> calls_;
  std::size_t fails_at_;
  int error_;
  std::size_t number_ = 0;
  std::deque<BlockRequest> asked_;
};

AsyncFile::MakeIo unwilling(std::size_t fails_at, int error) {
  return [=](int file, std::size_t) { return std::make_unique<Unwilling>(file, fails_at, error); };
}
std::unique_ptr<BlockIo> none(int, std::size_t) { return nullptr; }

/// Writes regions of random sizes in random order, many at once, and reads them back.
void round_trip(const fs::path& folder, const AsyncFileOptions& options,
                const AsyncFile::MakeIo& make_io) {
  std::mt19937 random(7);
  std::vector<std::size_t> sizes(24);
  std::size_t total = 0;
  for (std::size_t& size : sizes) size = (1 + random() % 37) * kPage;
  std::vector<std::size_t> offsets;
  for (const std::size_t size : sizes) {
    offsets.push_back(total);
    total += size;
  }
  const Pages from(total);
  const Pages to(total);
  for (std::byte& each : from.span()) each = static_cast<std::byte>(random());
  AsyncFile file(folder, total, options, make_io);
  std::vector<std::size_t> order(sizes.size());
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), random);
  std::vector<AsyncFile::Transfer> transfers;
  transfers.reserve(sizes.size());
  for (const std::size_t i : order) {
    transfers.push_back(file.write(offsets[i], from.span().subspan(offsets[i], sizes[i])));
  }
  for (const auto& each : transfers) file.wait(each);
  transfers.clear();
  for (const std::size_t i : order) {
    transfers.push_back(file.read(offsets[i], to.span().subspan(offsets[i], sizes[i])));
  }
  for (const auto& each : transfers) file.wait(each);
  EXPECT_TRUE(std::ranges::equal(from.span(), to.span()));
  EXPECT_EQ(file.totals().bytes_written, total);
  EXPECT_EQ(file.totals().bytes_read, total);
  EXPECT_EQ(file.totals().reads, sizes.size());
  EXPECT_EQ(file.totals().writes, sizes.size());
  EXPECT_GT(file.totals().waited, 0.0);
}

TEST(AsyncFile, ReadsBackWhatWasWritten) {
  const Folder folder;
  for (const std::size_t block : {kPage, 5 * kPage, std::size_t{1} << 20U}) {
    for (const std::size_t depth : {1U, 3U, 32U}) {
      for (const std::size_t threads : {1U, 3U}) {
        const bool odd = (depth + threads) % 2 == 1;
        const AsyncFileOptions options{block, depth, threads, odd, !odd};
        SCOPED_TRACE(testing::Message() << block << " x " << depth << " x " << threads);
        round_trip(folder.path(), options, make_ring);
        round_trip(folder.path(), options, none);
        round_trip(folder.path(), options, unwilling(1'000'000, 0));
      }
    }
  }
}

TEST(AsyncFile, SaysWhichWayItTakes) {
  const Folder folder;
  const AsyncFile ring(folder.path(), kPage, {});
  EXPECT_EQ(ring.has_ring(), std::string(why_no_ring()).empty()) << why_no_ring();
  const AsyncFile calls(folder.path(), kPage, {}, none);
  EXPECT_FALSE(calls.has_ring());
  EXPECT_EQ(calls.is_direct(), ring.is_direct());
  EXPECT_TRUE(fs::is_empty(folder.path())) << "a file has a name";
}

std::string failure(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::io);
    return error.what();
  }
  return "none";
}

TEST(AsyncFile, TellsOfADiskThatIsFullOrFails) {
  const Folder folder;
  using testing::AllOf;
  using testing::HasSubstr;
  for (const auto& [error, words] :
       {std::pair{-ENOSPC, "No space left"}, {-EIO, "Input/output error"}, {0, "Input/output"}}) {
    AsyncFile file(folder.path(), 16 * kPage, {.block_size = kPage}, unwilling(4, error));
    const Pages memory(16 * kPage);
    EXPECT_THAT(failure([&] { file.wait(file.write(0, memory.span())); }),
                AllOf(HasSubstr(folder.path().string()), HasSubstr(words), HasSubstr("write")));
    EXPECT_THAT(failure([&] { file.wait(file.read(0, memory.span())); }), HasSubstr("read"));
  }
  EXPECT_THAT(failure([&] { AsyncFile("/nonexistent/folder", kPage, {}); }),
              HasSubstr("No such file"));
  // No disk has as much.
  EXPECT_THAT(failure([&] { AsyncFile(folder.path(), std::uint64_t{1} << 50U, {}); }),
              HasSubstr("reserve"));
}

TEST(AsyncFile, EndsWithTransfersUnderWay) {
  const Folder folder;
  const Pages memory(256 * kPage);
  for (const auto& make_io : {AsyncFile::MakeIo(make_ring), AsyncFile::MakeIo(none)}) {
    AsyncFile file(folder.path(), 256 * kPage, {.block_size = kPage, .queue_depth = 2}, make_io);
    (void)file.write(0, memory.span());
    (void)file.read(0, memory.span());
  }
}

}  // namespace
}  // namespace zeropp
