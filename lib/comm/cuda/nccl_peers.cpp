#include "lib/comm/cuda/nccl_peers.hpp"

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "kernels/core/cuda/check.hpp"
#include "kernels/core/cuda/peer_flags.hpp"
#include "lib/base/error.hpp"
#include "lib/comm/in_flight.hpp"

#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 28, 3)

#include <nccl_device.h>

// What an older NCCL lacks is looked up weakly (nccl_copies.cpp). ncclTeamLsa has an overload for
// kernels, of which the pragma takes hold: the library's function has another name here.
#pragma weak ncclCommWindowRegister
#pragma weak ncclCommWindowDeregister
extern "C" ncclTeam_t team_of_peers(ncclComm_t) __asm__("ncclTeamLsa") __attribute__((weak));

namespace zeropp::comm {

namespace {

using cuda::check;

/// Every byte of a flag beyond all numbers; the flag is positive as a signed number, as which it is
/// compared.
constexpr int kBeyondAll = 0x3F;

constexpr std::uint64_t kProof = 0x7A65726F70700000;  ///< and the rank

/// Function of the driver, which the runtime has loaded: no program links it.
template <class Function>
Function driver_function(const char* name, unsigned version) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result{};
  check(cudaGetDriverEntryPointByVersion(name, &found, version, cudaEnableDefault, &result));
  return result == cudaDriverEntryPointSuccess ? reinterpret_cast<Function>(found) : nullptr;
}

using BatchMemOp = CUresult (*)(CUstream, unsigned, CUstreamBatchMemOpParams*, unsigned);
using DeviceGetAttribute = CUresult (*)(int*, CUdevice_attribute, CUdevice);

/// cuStreamBatchMemOp with 64-bit values; null where the driver or the GPU has none.
BatchMemOp batch_mem_op() {
  static const BatchMemOp function = []() -> BatchMemOp {
    int device = 0;
    check(cudaGetDevice(&device));
    const auto attribute = driver_function<DeviceGetAttribute>("cuDeviceGetAttribute", 2000);
    int has = 0;
    if (attribute == nullptr ||
        attribute(&has, CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS, device) !=
            CUDA_SUCCESS ||
        has == 0) {
      return nullptr;
    }
    return driver_function<BatchMemOp>("cuStreamBatchMemOp", 11070);
  }();
  return function;
}

}  // namespace

/// A part that was stored, and that the others store.
class NcclPeers::Stored final : public Work {
 public:
  Stored(const NcclPeers& peers, std::uint64_t number, Event done)
      : peers_(&peers), number_(number), done_(std::move(done)) {}
  void wait(StreamHandle stream) override {
    in_flight_.complete();
    Stream::borrow(peers_->stream_->runtime(), stream).wait(done_);
    peers_->await(Row::stored, number_, stream);
  }

 private:
  const NcclPeers* peers_;
  std::uint64_t number_;
  Event done_;
  InFlight in_flight_;
};

NcclPeers::NcclPeers(NcclHandle& handle, std::string group, int rank,
                     const std::vector<LinkClass>& links, const Stream& stream)
    : handle_(&handle),
      group_(std::move(group)),
      rank_(rank),
      links_(links),
      stream_(&stream),
      release_(stream.runtime(), "peers of a group that ended", StreamPriority::high) {
  if (batch_mem_op() == nullptr) {
    throw unreachable("the driver's streams do not wait for values of 64 bits");
  }
  int reached = 0;
  handle_->run("team of peers", 0, [&](ncclComm_t comm) {
    if (team_of_peers != nullptr) reached = team_of_peers(comm).nRanks;
    return ncclSuccess;
  });
  if (reached != static_cast<int>(size())) {
    throw unreachable(fmt::format("{} of {} ranks reach each other's memory", reached, size()));
  }
  open_page();
  handle_->at_abort([this] { let_go(); });
}

NcclPeers::~NcclPeers() {
  handle_->at_abort({});
  // Where an exception passes, streams may be waiting still: what they look at stays.
  if (std::uncaught_exceptions() > exceptions_) {
    let_go();
  } else {
    close_page();
  }
}

void NcclPeers::open_page() {
  void* memory = nullptr;
  handle_->run("memory of flags", page_bytes(),
               [&](ncclComm_t) { return ncclMemAlloc(&memory, page_bytes()); });
  page_ = static_cast<std::uint64_t*>(memory);
  std::vector<std::uint64_t> first(table() + size(), 0);
  first[proof()] = kProof + static_cast<std::uint64_t>(rank_);
  check(cudaMemcpy(page_, first.data(), page_bytes(), cudaMemcpyDefault));
  check(cudaDeviceSynchronize());
  // All ranks have come here when it returns: no flag is raised before it was cleared.
  handle_->run("registration of flags", page_bytes(), [&](ncclComm_t comm) {
    return ncclCommWindowRegister(comm, page_, page_bytes(), &window_, NCCL_WIN_COLL_SYMMETRIC);
  });
  if (window_ == nullptr) throw unreachable("NCCL does not register memory");
  const std::vector<std::byte*> pages = addresses(window_);
  // Each rank reads each other's page once: the addresses are those of a structure of NCCL's.
  for (std::size_t peer = 0; peer < size(); ++peer) {
    std::uint64_t* const copied = page_ + table() + peer;
    std::uint64_t seen = 0;
    cudaError_t status = cudaMemcpy(copied, pages[peer] + proof() * sizeof(seen), sizeof(seen),
                                    cudaMemcpyDeviceToDevice);
    if (status == cudaSuccess) {
      status = cudaMemcpy(&seen, copied, sizeof(seen), cudaMemcpyDeviceToHost);
    }
    if (status == cudaSuccess && seen == kProof + peer) continue;
    (void)cudaGetLastError();
    throw unreachable(
        fmt::format("the memory of rank {} does not lie where this version of NCCL "
                    "says ({})",
                    peer, cudaGetErrorString(status)));
  }
  check(cudaMemcpy(page_ + table(), pages.data(), size() * sizeof(pages[0]), cudaMemcpyDefault));
  check(cudaDeviceSynchronize());
}

void NcclPeers::close_page() {
  if (cudaDeviceSynchronize() != cudaSuccess) return;
  handle_->unless_ended([&](ncclComm_t comm) { (void)ncclCommWindowDeregister(comm, window_); });
  (void)ncclMemFree(page_);
}

/// NCCL 2.28 has these addresses for kernels only (ncclGetPeerPointer): the window is a structure
/// in the memory of the GPU, of which it reads the members that all versions since 2.28 begin with.
std::vector<std::byte*> NcclPeers::addresses(ncclWindow_t window) const {
  ncclWindow_vidmem seen{};
  check(cudaMemcpy(&seen, window, offsetof(ncclWindow_vidmem, mcOffset4K), cudaMemcpyDefault));
  std::vector<std::byte*> found;
  for (int peer = 0; peer < static_cast<int>(size()); ++peer) {
    const auto place = static_cast<std::uint64_t>(seen.lsaRank + peer - seen.worldRank);
    found.push_back(reinterpret_cast<std::byte*>(seen.lsaFlatBase) +
                    ((place * seen.stride4G) << 32U));
  }
  return found;
}

void NcclPeers::offer(std::span<std::byte> memory, ncclWindow_t window) {
  offered_.push_back({memory, addresses(window)});
}

void NcclPeers::withdraw(const std::byte* memory) {
  std::erase_if(offered_, [&](const Offered& one) { return one.memory.data() == memory; });
}

const NcclPeers::Offered* NcclPeers::find(std::span<const std::byte> memory) const {
  const auto found = std::ranges::find_if(offered_, [&](const Offered& one) {
    return memory.data() >= one.memory.data() &&
           memory.data() + memory.size() <= one.memory.data() + one.memory.size();
  });
  return found == offered_.end() ? nullptr : &*found;
}

bool NcclPeers::reaches(std::span<const std::byte> memory) const { return find(memory) != nullptr; }

std::byte* NcclPeers::at(const std::byte* own, int peer) const {
  const Offered* const offered = find({own, 1});
  if (offered == nullptr) throw std::logic_error("peers' memory: it is not registered");
  return offered->of_rank.at(static_cast<std::size_t>(peer)) + (own - offered->memory.data());
}

void NcclPeers::raise(Row row, std::uint64_t number) {
  cuda::raise_flags(reinterpret_cast<std::uint64_t* const*>(page_ + table()),
                    static_cast<unsigned>(size()), static_cast<unsigned>(rank_),
                    static_cast<unsigned>(flag(row, static_cast<std::size_t>(rank_))), number,
                    stream_->handle());
}

void NcclPeers::await(Row row, std::uint64_t number, StreamHandle stream) const {
  if (gone_) {
    throw Error(ExitCode::environment,
                fmt::format("NCCL group '{}', rank {}: its peers' memory was let go by an earlier "
                            "error, which says what to look for",
                            group_, rank_));
  }
  std::vector<CUstreamBatchMemOpParams> waits;
  for (std::size_t peer = 0; peer < size(); ++peer) {
    if (peer == static_cast<std::size_t>(rank_)) continue;
    CUstreamBatchMemOpParams& wait = waits.emplace_back();
    std::memset(&wait, 0, sizeof(wait));
    wait.waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_64;
    wait.waitValue.address = reinterpret_cast<CUdeviceptr>(page_ + flag(row, peer));
    wait.waitValue.value64 = number;
    wait.waitValue.flags = CU_STREAM_WAIT_VALUE_GEQ;
  }
  const CUresult status =
      batch_mem_op()(static_cast<CUstream>(static_cast<cudaStream_t>(stream.native)),
                     static_cast<unsigned>(waits.size()), waits.data(), 0);
  if (status == CUDA_SUCCESS) return;
  cuda::fail(fmt::format("CUDA driver: error {} of cuStreamBatchMemOp", static_cast<int>(status)));
}

void NcclPeers::let_go() noexcept {
  gone_ = true;
  (void)cudaMemsetAsync(page_, kBeyondAll, kRows * size() * sizeof(std::uint64_t),
                        static_cast<cudaStream_t>(release_.handle().native));
}

StreamHandle NcclPeers::begin(StreamHandle caller) {
  ++begun_;
  handle_->run("stores into peers", 0, [&](ncclComm_t) {
    Stream::borrow(stream_->runtime(), caller).record(ready_);
    stream_->wait(ready_);
    raise(Row::begun, begun_);
    await(Row::begun, begun_, stream_->handle());
    return ncclSuccess;
  });
  return stream_->handle();
}

std::unique_ptr<Work> NcclPeers::stored(std::size_t bytes, Bytes& sent) {
  ++stored_;
  handle_->run("end of stores into peers", (size() - 1) * bytes, [&](ncclComm_t) {
    raise(Row::stored, stored_);
    return ncclSuccess;
  });
  for (const LinkClass link : links_) sent.add(link, bytes);
  Event done;
  stream_->record(done);
  return std::make_unique<Stored>(*this, stored_, std::move(done));
}

Error NcclPeers::unreachable(const std::string& why) const {
  return {ExitCode::environment,
          fmt::format("NCCL group '{}', rank {}: no kernel can store into the memory of other "
                      "ranks, since {}: choose --peer-stores off; NCCL_DEBUG=INFO says more",
                      group_, rank_, why)};
}

}  // namespace zeropp::comm

#endif
