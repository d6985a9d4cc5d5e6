// Transport of requests of a file's blocks to the kernel and back: by io_uring, or by a system call
// each. Used by one thread; AsyncFile has one for each of its threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace zeropp {

struct BlockRequest {
  std::shared_ptr<void> owner;  ///< whose it is; kept until it is complete
  std::uint64_t offset = 0;     ///< in the file, bytes
  std::byte* memory = nullptr;  ///< read from where `write`
  std::size_t bytes = 0;
  bool write = false;
};

struct BlockResult {
  BlockRequest request;
  std::int64_t bytes = 0;  ///< that were transferred, maybe fewer than asked for; negative: -errno
};

class BlockIo {
 public:
  virtual ~BlockIo() = default;
  /// Starts requests: as many as `depth` leaves, at most. `each`: one system call for each of them.
  virtual void begin(std::span<const BlockRequest> requests, bool each) = 0;
  /// The next that is complete, waiting for it; of those that were begun.
  virtual BlockResult end() = 0;
};

/// BlockIo by the kernel's io_uring, with `depth` requests in flight at most; null where the kernel
/// or the build has none. `file` is an open descriptor.
std::unique_ptr<BlockIo> make_ring(int file, std::size_t depth);
/// Reason why make_ring() has none, and the remedy, in half a sentence; empty: it has.
const char* why_no_ring();

/// BlockIo by pread and pwrite, one request at a time.
std::unique_ptr<BlockIo> make_calls(int file);

}  // namespace zeropp
