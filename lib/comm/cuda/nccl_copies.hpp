// A group's messages of one size to everyone by the GPUs' copy engines: an NCCL communicator that
// takes no multiprocessor where both ends lie in memory that all ranks registered at the same
// places. Kernels that move bytes take multiprocessors and, beside products, half of their speed.
// Source: NCCL's guide, "zero-CTA" policy and symmetric windows.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "lib/comm/communicator.hpp"
#include "lib/comm/cuda/nccl_handle.hpp"

namespace zeropp::comm {

class NcclCopies {
 public:
  /// Every rank of the group calls it with the same id; all ranks reach each other's memory.
  NcclCopies(const std::string& group, int rank, int size, const ncclUniqueId& id)
      : group_(group), rank_(rank), handle_(group, rank, size, id, NcclHandle::Kind::copies) {}

  /// Collective. Throws Error(environment) where NCCL cannot let others into the memory.
  [[nodiscard]] std::unique_ptr<RegisteredMemory> register_memory(std::span<std::byte> memory);
  /// Whether pieces of `bytes`, `all` bytes of them at `first`, go this way.
  [[nodiscard]] bool carries(const std::byte* first, std::size_t all, std::size_t bytes) const;

  /// Operations of a Communicator, on `stream`, for pieces that carries() says go this way.
  void exchange_equal(const std::byte* out, std::byte* in, std::size_t bytes, cudaStream_t stream);
  void all_gather_in_place(std::byte* pieces, std::size_t bytes, cudaStream_t stream);

 private:
  class Window;

  std::string group_;
  int rank_;
  NcclHandle handle_;
  std::vector<std::span<std::byte>> offered_;
};

}  // namespace zeropp::comm
