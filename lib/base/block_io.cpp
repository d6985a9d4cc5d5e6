#include "lib/base/block_io.hpp"

#include <unistd.h>

#include <cerrno>
#include <deque>

namespace zeropp {

namespace {

class Calls final : public BlockIo {
 public:
  explicit Calls(int file) : file_(file) {}

  void begin(std::span<const BlockRequest> requests, bool /*each*/) override {
    for (const BlockRequest& request : requests) {
      const std::int64_t bytes = transfer(request);
      done_.push_back({request, bytes < 0 ? -std::int64_t{errno} : bytes});
    }
  }

  BlockResult end() override {
    BlockResult result = std::move(done_.front());
    done_.pop_front();
    return result;
  }

 private:
  [[nodiscard]] std::int64_t transfer(const BlockRequest& request) const {
    const auto at = static_cast<off_t>(request.offset);
    std::int64_t bytes = 0;
    do {
      bytes = request.write ? ::pwrite(file_, request.memory, request.bytes, at)
                            : ::pread(file_, request.memory, request.bytes, at);
    } while (bytes < 0 && errno == EINTR);
    return bytes;
  }

  int file_;
  std::deque<BlockResult> done_;
};

}  // namespace

std::unique_ptr<BlockIo> make_calls(int file) { return std::make_unique<Calls>(file); }

}  // namespace zeropp
