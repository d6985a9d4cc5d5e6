// A file without a name, for data that is on a disk for the time of a run. Threads of its own read
// and write it while the caller computes. Transfers are cut into blocks, of which each thread keeps
// several in flight: by io_uring, or, where the kernel or the build has none, one per thread by
// pread and pwrite. They go past the page cache (O_DIRECT) where the file system takes that, else
// through it. The file has no name from the begin on, or loses it at once: nothing is left, however
// the process ends. One caller's thread.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "lib/base/async_file_options.hpp"
#include "lib/base/block_io.hpp"

namespace zeropp {

/// Totals of the transfers so far.
struct AsyncFileTotals {
  std::uint64_t bytes_read = 0;
  std::uint64_t bytes_written = 0;
  std::uint64_t reads = 0;  ///< transfers
  std::uint64_t writes = 0;
  double waited = 0;  ///< seconds in wait()

  AsyncFileTotals& operator+=(const AsyncFileTotals& other);
};

class AsyncFile {
 public:
  /// Offsets, lengths and addresses of all transfers are multiples of it.
  static constexpr std::size_t kPage = 4096;

  using MakeIo = std::function<std::unique_ptr<BlockIo>(int file, std::size_t depth)>;

  /// A file of `bytes` bytes, which the disk has room for, in a folder that exists. `make_io`: what
  /// takes the requests of a thread to the kernel, null where that cannot be had. Throws Error(io),
  /// and Error(environment) where a thread cannot be started.
  AsyncFile(std::filesystem::path folder, std::uint64_t bytes, const AsyncFileOptions& options,
            const MakeIo& make_io = make_ring);
  /// Waits for the blocks in flight, and drops the blocks that are not.
  ~AsyncFile();
  AsyncFile(const AsyncFile&) = delete;
  AsyncFile& operator=(const AsyncFile&) = delete;

  /// A transfer that was started. A default one is complete.
  class Transfer {
   private:
    friend class AsyncFile;
    struct State;
    std::shared_ptr<State> state_;
  };

  /// Starts a transfer. `memory` belongs to it until it is complete, or the file is gone.
  Transfer read(std::uint64_t offset, std::span<std::byte> memory);
  Transfer write(std::uint64_t offset, std::span<const std::byte> memory);
  /// Returns when the transfer is complete. Throws Error(io) where it failed: the first reason.
  void wait(const Transfer& transfer);

  /// Whether requests go by io_uring, or whatever `make_io` gave.
  [[nodiscard]] bool has_ring() const { return ring_; }
  /// Whether they go past the page cache.
  [[nodiscard]] bool is_direct() const { return direct_; }
  [[nodiscard]] const AsyncFileTotals& totals() const { return totals_; }

 private:
  /// Begins without a file. The other constructors delegate to this one: where one of them throws,
  /// the object is destroyed.
  AsyncFile(std::filesystem::path folder, const AsyncFileOptions& options);
  void start_threads();
  Transfer start(std::uint64_t offset, std::byte* memory, std::size_t bytes, bool write);
  void work(BlockIo& io);
  /// Waits for requests where `in_flight` is none; those that may begin now.
  std::vector<BlockRequest> take(std::size_t in_flight, std::size_t room);
  void complete(BlockResult result);

  std::filesystem::path folder_;
  AsyncFileOptions options_;
  int descriptor_ = -1;
  bool direct_ = false;
  bool ring_ = false;
  AsyncFileTotals totals_;
  std::mutex mutex_;
  std::condition_variable begin_;
  std::condition_variable end_;
  bool stopping_ = false;
  std::deque<BlockRequest> waiting_;
  std::vector<std::unique_ptr<BlockIo>> ios_;
  std::vector<std::thread> threads_;
};

}  // namespace zeropp
