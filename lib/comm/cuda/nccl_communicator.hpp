// The Communicator for device memory, over NCCL. Owns streams: an operation makes them wait for the
// caller's, runs on them, and Work::wait() makes the caller's stream wait for the operation. The
// host waits for none. Operations of one group run one after the other, in the order in which they
// were started, which is the same on all ranks; those of different groups overlap. Messages to
// other nodes are cut over lanes (lib/comm/lanes.hpp), each an NCCL communicator with a stream; all
// else runs on the first's stream, large equal pieces by copy engines (nccl_copies.hpp).
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lib/comm/communicator.hpp"
#include "lib/comm/cuda/nccl_copies.hpp"
#include "lib/comm/cuda/nccl_handle.hpp"
#include "lib/device/device.hpp"

namespace zeropp::comm {

class NcclCommunicator final : public Communicator {
 public:
  /// Every rank of the group calls it with the same `ids`, one a lane; `copies`: of the
  /// communicator that copy engines serve, or null.
  NcclCommunicator(Membership member, const Device& device, std::span<const ncclUniqueId> ids,
                   const ncclUniqueId* copies);

  [[nodiscard]] std::unique_ptr<Work> exchange(std::span<const Send> sends,
                                               std::span<const Receive> receives,
                                               StreamHandle stream, Bytes& sent) override;
  [[nodiscard]] std::unique_ptr<Work> exchange_equal(const std::byte* out, std::byte* in,
                                                     std::size_t bytes, StreamHandle stream,
                                                     Bytes& sent) override;
  [[nodiscard]] std::unique_ptr<Work> all_gather_in_place(std::byte* pieces, std::size_t stride,
                                                          std::size_t bytes, StreamHandle stream,
                                                          Bytes& sent) override;
  [[nodiscard]] std::unique_ptr<RegisteredMemory> register_memory(
      std::span<std::byte> memory) override;
  [[nodiscard]] std::unique_ptr<Work> native_collective(const NativeCall& call,
                                                        StreamHandle stream) override;

 private:
  struct Lane {
    Lane(const std::string& group, int rank, int size, const Device& device,
         const ncclUniqueId& id);
    Stream stream;
    Event done;  ///< of what the lane carried of the operation being started
    NcclHandle handle;
  };

  [[nodiscard]] Lane& own() { return lanes_.front(); }
  /// Makes work that is enqueued on the first lane from here on come after the work that `caller`
  /// holds so far.
  void follow(StreamHandle caller);
  /// Starts messages to other ranks, and copies of those to the own one, as one operation, which
  /// begins with follow(). Copies run on the caller's stream, beside the messages.
  void move(const char* operation, std::span<const Send> sends, std::span<const Receive> receives,
            StreamHandle caller);
  void send_to_others(const char* operation, std::span<const Send> sends,
                      std::span<const Receive> receives);
  /// Enqueues any collective but all-to-all, of `count` elements per part, on the first lane.
  [[nodiscard]] ncclResult_t enqueue(const NativeCall& call, std::size_t count, ncclComm_t comm);
  /// Counts the bytes of one message of `bytes` to every other rank.
  void count_to_others(std::size_t bytes, Bytes& sent) const;
  /// The operation that was enqueued last, for `caller` to wait for.
  [[nodiscard]] std::unique_ptr<Work> started();

  const Runtime& runtime_;
  std::deque<Lane> lanes_;  ///< they do not move
  std::optional<NcclCopies> copies_;
  Event ready_;   ///< in the caller's stream, of the operation being started
  Event copied_;  ///< in the caller's stream, after the copies of that operation
};

}  // namespace zeropp::comm
