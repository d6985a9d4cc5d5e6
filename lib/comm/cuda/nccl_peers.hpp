// Peers' memory over NVLink (PeerMemory of communicator.hpp): NCCL maps registered windows of all
// ranks into each rank's addresses, kernels store there, and flags say when. A flag for each pair
// of ranks says how many operations the one has begun, another how many parts it has stored: they
// lie in the memory of the rank that waits for them, are raised by a tiny kernel, and a stream
// waits for them without a kernel (cuStreamBatchMemOp). All numbers grow as long as the group
// lives. Before any group is aborted, the own flags are raised beyond all numbers, so that no
// stream waits for a rank that has died; no operation begins or is waited for from then on.
//
// Why that neither hangs nor stores where it must not: the flags are this GPU's own, and are
// written on a stream that waits for nothing, under the deadline of an abort. A rank that is late
// cannot lower them (raise_flags()). They outlive what is called at an abort, which the destructor
// takes back first. Stores into the memory of a rank that has ended or died go to where that memory
// is still mapped here: CUDA keeps shared memory as long as somebody maps it. A kernel that still
// stores when the communicator of its own rank is aborted, which takes the mapping away, ends with
// an error of CUDA, in a process that is ending. Source: NCCL's device API (windows, LSA teams),
// and its own collectives by copy engines, which wait the same way.
#pragma once

#include <nccl.h>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "lib/comm/communicator.hpp"
#include "lib/comm/cuda/nccl_handle.hpp"
#include "lib/device/stream.hpp"

// Windows of older versions have no addresses of peers.
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 28, 3)

namespace zeropp::comm {

class NcclPeers final : public PeerMemory {
 public:
  /// Collective over the group of `handle`. `links`: to its ranks. `stream`: the group's own, which
  /// outlives this. Throws Error(environment) with the remedy where not all ranks reach each
  /// other's memory.
  NcclPeers(NcclHandle& handle, std::string group, int rank, const std::vector<LinkClass>& links,
            const Stream& stream);
  ~NcclPeers() override;

  /// Lets the stores of others into `memory`, which `window` was made of on all ranks, until it is
  /// withdrawn.
  void offer(std::span<std::byte> memory, ncclWindow_t window);
  void withdraw(const std::byte* memory);
  /// Whether all of `memory` was offered as one.
  [[nodiscard]] bool reaches(std::span<const std::byte> memory) const;

  [[nodiscard]] std::byte* at(const std::byte* own, int peer) const override;
  [[nodiscard]] StreamHandle begin(StreamHandle caller) override;
  [[nodiscard]] std::unique_ptr<Work> stored(std::size_t bytes, Bytes& sent) override;

 private:
  class Stored;
  /// Rows of flags in a rank's page, one flag for each rank that raises it.
  enum class Row : std::uint8_t { begun, stored };
  static constexpr std::size_t kRows = 2;
  struct Offered {
    std::span<std::byte> memory;
    std::vector<std::byte*> of_rank;  ///< what memory.data() is on each rank
  };

  void open_page();
  void close_page();
  [[nodiscard]] std::vector<std::byte*> addresses(ncclWindow_t window) const;
  [[nodiscard]] const Offered* find(std::span<const std::byte> memory) const;
  [[nodiscard]] std::size_t size() const { return links_.size(); }
  [[nodiscard]] std::size_t flag(Row row, std::size_t rank) const {
    return static_cast<std::size_t>(row) * size() + rank;
  }
  /// Place of what the page has behind the flags: what proves that a page is this rank's, and the
  /// pages of all ranks.
  [[nodiscard]] std::size_t proof() const { return kRows * size(); }
  [[nodiscard]] std::size_t table() const { return proof() + 1; }
  [[nodiscard]] std::size_t page_bytes() const {
    return (table() + size()) * sizeof(std::uint64_t);
  }

  /// Tells all others that this rank has come to `number`.
  void raise(Row row, std::uint64_t number);
  /// Makes `stream` wait until all others have. Throws Error(environment) after let_go().
  void await(Row row, std::uint64_t number, StreamHandle stream) const;
  /// Lets all streams go on that wait for flags, now and later.
  void let_go() noexcept;
  [[nodiscard]] Error unreachable(const std::string& why) const;

  NcclHandle* handle_;
  std::string group_;
  int rank_;
  std::vector<LinkClass> links_;
  const Stream* stream_;
  Stream release_;  ///< of let_go(): others may be waiting
  std::uint64_t* page_ = nullptr;
  ncclWindow_t window_ = nullptr;
  std::vector<Offered> offered_;
  std::uint64_t begun_ = 0;
  std::uint64_t stored_ = 0;
  Event ready_;        ///< in the caller's stream, of the operation being begun
  bool gone_ = false;  ///< let_go() was called
  int exceptions_ = std::uncaught_exceptions();
};

}  // namespace zeropp::comm

#endif
