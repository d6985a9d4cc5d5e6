#include "lib/comm/cuda/nccl_copies.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "lib/base/error.hpp"
#include "lib/comm/nccl.hpp"
#include "lib/comm/options.hpp"

// A process may hold an older NCCL than the one that this was compiled with: PyTorch brings its
// own. Functions that older versions lack are looked up weakly, so that everything else works with
// these versions.
#pragma weak ncclAlltoAll
#pragma weak ncclCommWindowRegister
#pragma weak ncclCommWindowDeregister

namespace zeropp::comm {

#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 28, 3)

bool nccl_has_copy_engines() {
  int version = 0;
  return ncclGetVersion(&version) == ncclSuccess && version >= NCCL_VERSION(2, 28, 3);
}

class NcclCopies::Window final : public RegisteredMemory {
 public:
  Window(NcclCopies& copies, std::span<std::byte> memory) : copies_(&copies), memory_(memory) {
    copies.handle_.run("registration of memory", memory.size(), [&](ncclComm_t comm) {
      return ncclCommWindowRegister(comm, memory.data(), memory.size(), &window_,
                                    NCCL_WIN_COLL_SYMMETRIC);
    });
    if (window_ == nullptr) {
      throw Error(ExitCode::environment,
                  fmt::format("NCCL group '{}', rank {}: the GPUs cannot be let into each other's "
                              "memory: choose --copy-engines off; NCCL_DEBUG=INFO says more",
                              copies.group_, copies.rank_));
    }
    copies.offered_.push_back(memory);
  }
  ~Window() override {
    std::erase_if(copies_->offered_,
                  [&](std::span<std::byte> other) { return other.data() == memory_.data(); });
    copies_->handle_.unless_ended(
        [&](ncclComm_t comm) { (void)ncclCommWindowDeregister(comm, window_); });
  }

 private:
  NcclCopies* copies_;
  std::span<std::byte> memory_;
  ncclWindow_t window_ = nullptr;
};

std::unique_ptr<RegisteredMemory> NcclCopies::register_memory(std::span<std::byte> memory) {
  if (memory.empty()) return nullptr;
  return std::make_unique<Window>(*this, memory);
}

void NcclCopies::exchange_equal(const std::byte* out, std::byte* in, std::size_t bytes,
                                cudaStream_t stream) {
  handle_.run("equal exchange", bytes, [&](ncclComm_t comm) {
    return ncclAlltoAll(out, in, bytes, ncclUint8, comm, stream);
  });
}

#else

bool nccl_has_copy_engines() { return false; }

std::unique_ptr<RegisteredMemory> NcclCopies::register_memory(std::span<std::byte>) {
  throw Error(ExitCode::environment,
              fmt::format("NCCL group '{}': this build's NCCL {}.{} does not use copy engines: "
                          "choose --copy-engines off, or build with 2.28.3 or later",
                          group_, NCCL_MAJOR, NCCL_MINOR));
}

void NcclCopies::exchange_equal(const std::byte*, std::byte*, std::size_t, cudaStream_t) {}

#endif

bool NcclCopies::carries(const std::byte* first, std::size_t all, std::size_t bytes) const {
  return bytes >= kFewestCopied && std::ranges::any_of(offered_, [&](std::span<std::byte> memory) {
           return first >= memory.data() && first + all <= memory.data() + memory.size();
         });
}

void NcclCopies::all_gather_in_place(std::byte* pieces, std::size_t bytes, cudaStream_t stream) {
  const std::byte* const own = pieces + static_cast<std::size_t>(rank_) * bytes;
  handle_.run("all-gather in place", bytes, [&](ncclComm_t comm) {
    return ncclAllGather(own, pieces, bytes, ncclUint8, comm, stream);
  });
}

}  // namespace zeropp::comm
