#include <liburing.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <thread>
#include <vector>

#include "lib/base/block_io.hpp"

namespace zeropp {

namespace {

class Ring final : public BlockIo {
 public:
  /// `ring` is ready for use, with `slots` requests in flight.
  Ring(const io_uring& ring, int file, std::size_t slots)
      : ring_(ring), file_(file), requests_(slots) {
    for (std::size_t slot = 0; slot < slots; ++slot) free_.push_back(slot);
  }
  ~Ring() override { io_uring_queue_exit(&ring_); }
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;

  void begin(std::span<const BlockRequest> requests, bool each) override {
    for (const BlockRequest& request : requests) {
      const std::size_t slot = free_.back();
      free_.pop_back();
      requests_[slot] = request;
      if (broken_ != 0) continue;
      io_uring_sqe* const entry = io_uring_get_sqe(&ring_);
      const auto bytes = static_cast<unsigned>(request.bytes);
      if (request.write) {
        io_uring_prep_write(entry, file_, request.memory, bytes, request.offset);
      } else {
        io_uring_prep_read(entry, file_, request.memory, bytes, request.offset);
      }
      io_uring_sqe_set_data64(entry, slot);
      if (each) submit();
    }
    submit();
  }

  BlockResult end() override {
    io_uring_cqe* entry = nullptr;
    while (broken_ == 0 && io_uring_peek_cqe(&ring_, &entry) != 0) wait_for_one();
    if (broken_ != 0) return {take_any(), broken_};
    const auto slot = static_cast<std::size_t>(io_uring_cqe_get_data64(entry));
    const std::int64_t bytes = entry->res;
    io_uring_cqe_seen(&ring_, entry);
    free_.push_back(slot);
    return {std::move(requests_[slot]), bytes};
  }

 private:
  static constexpr int kTries = 10'000;  ///< of a millisecond each

  void wait_for_one() {
    // Every time what was not submitted yet: else it would be waited for without end.
    const int status = io_uring_submit_and_wait(&ring_, 1);
    // The kernel lacks memory or room for completions for a while; all other errors last.
    const bool may_pass = status == -EAGAIN || status == -EBUSY;
    tries_ = may_pass ? tries_ + 1 : 0;
    if (may_pass && tries_ < kTries) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    } else if (status < 0 && status != -EINTR) {
      broken_ = may_pass ? -EIO : status;
    }
  }
  /// One of the requests that are in flight.
  [[nodiscard]] BlockRequest take_any() {
    std::size_t slot = 0;
    while (std::ranges::find(free_, slot) != free_.end()) ++slot;
    free_.push_back(slot);
    return std::move(requests_[slot]);
  }

  /// Submits requests; what the kernel does not take now, end() submits again.
  void submit() {
    if (broken_ == 0) (void)io_uring_submit(&ring_);
  }

  io_uring ring_;
  int file_;
  int tries_ = 0;   ///< that failed in a row
  int broken_ = 0;  ///< negative: the kernel takes and gives nothing any more, -errno
  std::vector<BlockRequest> requests_;  ///< by slot
  std::vector<std::size_t> free_;
};

/// A ring that was never used is closed without a trace.
int try_ring(io_uring& ring, std::size_t depth) {
  return io_uring_queue_init(static_cast<unsigned>(depth), &ring, 0);
}

}  // namespace

std::unique_ptr<BlockIo> make_ring(int file, std::size_t depth) {
  io_uring ring{};
  if (try_ring(ring, depth) != 0) return nullptr;
  return std::make_unique<Ring>(ring, file, depth);
}

const char* why_no_ring() {
  io_uring ring{};
  const int status = try_ring(ring, 1);
  if (status == 0) io_uring_queue_exit(&ring);
  switch (-status) {
    case 0:
      return "";
    case ENOSYS:
      return "the kernel has no io_uring: use Linux 5.6 or later";
    case EPERM:
    case EACCES:
      return "this container or the setting kernel.io_uring_disabled forbids io_uring: allow it";
    case ENOMEM:
      return "io_uring may lock no more memory: raise ulimit -l";
    default:
      return "the kernel refuses io_uring";
  }
}

}  // namespace zeropp
