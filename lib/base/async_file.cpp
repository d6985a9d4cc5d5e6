#include "lib/base/async_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <system_error>
#include <utility>

#include "lib/base/error.hpp"
#include "lib/base/fault.hpp"
#include "lib/base/file.hpp"

namespace zeropp {

namespace {

namespace fs = std::filesystem;

/// Largest number of requests that wait in a system call each; more would only be more stacks.
constexpr std::size_t kMostCalls = 16;

/// Opens a file without a name. Negative: errno says why not.
int open_unnamed(const fs::path& folder, int flags) {
  const int file = ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC | flags, 0600);
  if (file >= 0 || (errno != EOPNOTSUPP && errno != EISDIR)) return file;
  std::string name = (folder / "zeropp.XXXXXX").string();
  const int named = ::mkostemp(name.data(), O_CLOEXEC | flags);
  const int error = errno;
  if (named >= 0 || error == EINVAL) (void)::unlink(name.c_str());  // it may be there all the same
  errno = error;
  return named;
}

/// Room on the disk for all of it, or, where the file system does not promise that, its size.
int reserve(int file, std::uint64_t bytes) {
  const auto size = static_cast<off_t>(bytes);
  int status = 0;
  do {
    status = ::fallocate(file, 0, 0, size) == 0 ? 0 : errno;
  } while (status == EINTR);
  if (status != EOPNOTSUPP) return status;
  return ::ftruncate(file, size) == 0 ? 0 : errno;
}

}  // namespace

AsyncFileTotals& AsyncFileTotals::operator+=(const AsyncFileTotals& other) {
  bytes_read += other.bytes_read;
  bytes_written += other.bytes_written;
  reads += other.reads;
  writes += other.writes;
  waited += other.waited;
  return *this;
}

struct AsyncFile::Transfer::State {
  std::size_t left = 0;  ///< requests
  int error = 0;
  bool write = false;
};

AsyncFile::AsyncFile(fs::path folder, const AsyncFileOptions& options)
    : folder_(std::move(folder)), options_(options) {}

AsyncFile::AsyncFile(fs::path folder, std::uint64_t bytes, const AsyncFileOptions& options,
                     const MakeIo& make_io)
    : AsyncFile(std::move(folder), options) {
  descriptor_ = open_unnamed(folder_, O_DIRECT);
  direct_ = descriptor_ >= 0;
  if (!direct_ && errno == EINVAL) descriptor_ = open_unnamed(folder_, 0);
  if (descriptor_ < 0) fail_io("make a file in", folder_, errno);
  if (const int error = bytes == 0 ? 0 : reserve(descriptor_, bytes); error != 0) {
    fail_io(fmt::format("reserve {} bytes in", bytes).c_str(), folder_, error);
  }
  for (std::size_t i = 0; i < options_.threads; ++i) {
    if (auto io = make_io(descriptor_, options_.queue_depth)) ios_.push_back(std::move(io));
  }
  ring_ = !ios_.empty();
  if (!ring_) {
    const std::size_t calls = std::min(options_.threads * options_.queue_depth, kMostCalls);
    for (std::size_t i = 0; i < calls; ++i) ios_.push_back(make_calls(descriptor_));
    options_.queue_depth = 1;
  }
  start_threads();
}

void AsyncFile::start_threads() {
  try {
    for (const auto& io : ios_) threads_.emplace_back([this, &io] { work(*io); });
  } catch (const std::system_error& error) {
    throw Error(
        ExitCode::environment,
        fmt::format("only {} of the {} threads for the file of this process in {} could be "
                    "started ({}): allow more (ulimit -u), or set fewer in aio.thread_count",
                    threads_.size(), ios_.size(), folder_.string(), error.what()));
  }
}

AsyncFile::~AsyncFile() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    waiting_.clear();
  }
  begin_.notify_all();
  for (std::thread& thread : threads_) thread.join();
  ios_.clear();
  if (descriptor_ >= 0) ::close(descriptor_);
}

AsyncFile::Transfer AsyncFile::read(std::uint64_t offset, std::span<std::byte> memory) {
  totals_.bytes_read += memory.size();
  ++totals_.reads;
  return start(offset, memory.data(), memory.size(), false);
}

AsyncFile::Transfer AsyncFile::write(std::uint64_t offset, std::span<const std::byte> memory) {
  totals_.bytes_written += memory.size();
  ++totals_.writes;
  // One type of request serves both directions; those that write only read the memory.
  return start(offset, const_cast<std::byte*>(memory.data()), memory.size(), true);
}

AsyncFile::Transfer AsyncFile::start(std::uint64_t offset, std::byte* memory, std::size_t bytes,
                                     bool write) {
  Transfer transfer;
  transfer.state_ = std::make_shared<Transfer::State>();
  transfer.state_->write = write;
  {
    const std::lock_guard lock(mutex_);
    for (std::size_t at = 0; at < bytes; at += options_.block_size) {
      const std::size_t length = std::min(options_.block_size, bytes - at);
      waiting_.push_back({transfer.state_, offset + at, memory + at, length, write});
      ++transfer.state_->left;
    }
  }
  begin_.notify_all();
  return transfer;
}

void AsyncFile::wait(const Transfer& transfer) {
  if (!transfer.state_) return;
  Transfer::State& state = *transfer.state_;
  const auto since = std::chrono::steady_clock::now();
  std::unique_lock lock(mutex_);
  end_.wait(lock, [&] { return state.left == 0; });
  totals_.waited += std::chrono::duration<double>(std::chrono::steady_clock::now() - since).count();
  if (state.error == 0) return;
  fail_io(state.write ? "write to the file of this process in"
                      : "read from the file of this process in",
          folder_, state.error);
}

std::vector<BlockRequest> AsyncFile::take(std::size_t in_flight, std::size_t room) {
  std::unique_lock lock(mutex_);
  if (in_flight == 0) begin_.wait(lock, [&] { return stopping_ || !waiting_.empty(); });
  std::vector<BlockRequest> taken;
  while (taken.size() < room && !waiting_.empty()) {
    taken.push_back(std::move(waiting_.front()));
    waiting_.pop_front();
  }
  return taken;
}

void AsyncFile::work(BlockIo& io) {
  const std::size_t depth = options_.queue_depth;
  for (std::size_t in_flight = 0;;) {
    const bool may_begin = options_.overlap_events || in_flight == 0;
    const auto requests = take(in_flight, may_begin ? depth - in_flight : 0);
    if (!requests.empty()) io.begin(requests, options_.single_submit);
    in_flight += requests.size();
    if (in_flight == 0) return;  // stopping
    complete(io.end());
    --in_flight;
  }
}

void AsyncFile::complete(BlockResult result) {
  BlockRequest& request = result.request;
  const auto call = request.write ? fault::DiskCall::put : fault::DiskCall::get;
  if (const int error = fault::of_disk(call); error != 0) result.bytes = -error;
  const bool again = result.bytes == -EINTR || result.bytes == -EAGAIN;
  const auto done = static_cast<std::size_t>(std::max<std::int64_t>(0, result.bytes));
  const std::lock_guard lock(mutex_);
  auto& state = *std::static_pointer_cast<Transfer::State>(request.owner);
  // A transfer of no bytes at all means that the file ends there, which nobody but a failing disk
  // can have brought about.
  const int error =
      result.bytes == 0 ? EIO : static_cast<int>(-std::min<std::int64_t>(0, result.bytes));
  if (!again && error != 0 && state.error == 0) state.error = error;
  const bool unfinished = again || (done > 0 && done < request.bytes);
  if (unfinished && !stopping_) {
    waiting_.push_front({request.owner, request.offset + done, request.memory + done,
                         request.bytes - done, request.write});
    begin_.notify_one();
    return;
  }
  if (--state.left == 0) end_.notify_all();
}

}  // namespace zeropp
