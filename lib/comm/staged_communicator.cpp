#include "lib/comm/staged_communicator.hpp"

#include <utility>
#include <vector>

#include "lib/base/checked.hpp"
#include "lib/comm/communicator.hpp"

namespace zeropp::comm {

namespace {

constexpr std::size_t kAlignment = 256;
std::size_t aligned(std::size_t bytes) { return round_up(bytes, kAlignment); }

/// Device memory that waits for bytes from the host.
struct Arrival {
  std::byte* device;
  const std::byte* staged;
  std::size_t bytes;
};

}  // namespace

/// The pinned memory of one operation, cut from one block.
class StagedCommunicator::Staging {
 public:
  Staging(StagedCommunicator& owner, std::size_t bytes, StreamHandle stream)
      : pool_(owner.pool_),
        stream_(Stream::borrow(owner.runtime_, stream)),
        block_(owner.pool_.take(bytes)) {
    stream_.wait(block_.idle);
  }

  [[nodiscard]] const Stream& stream() const { return stream_; }
  /// The next `bytes` bytes of the block.
  std::byte* place(std::size_t bytes) {
    std::byte* const begin = block_.memory.data() + used_;
    used_ += aligned(bytes);
    return begin;
  }
  /// The next place in the block for elements like those of `device`.
  View place(const ConstView& device) {
    return {place(device.bytes()), device.count, device.dtype, block_.memory.kind()};
  }
  /// A copy on the stream; a wait for the operation waits for it.
  void copy_to_self(const Send& send, const Receive& receive) {
    stream_.copy(receive.data, send.data, send.bytes);
    stream_.record(copied_);
  }
  /// Device memory -> pinned memory, on the stream.
  void fetch(const ConstView& device, const View& staged) const {
    stream_.copy(static_cast<std::byte*>(staged.data), static_cast<const std::byte*>(device.data),
                 device.bytes());
  }
  /// Arranges that `staged` is copied to `device` at wait().
  void expect(const View& device, const View& staged) {
    expect(static_cast<std::byte*>(device.data), static_cast<const std::byte*>(staged.data),
           device.bytes());
  }
  void expect(std::byte* device, const std::byte* staged, std::size_t bytes) {
    arrivals_.push_back({device, staged, bytes});
  }
  /// Waits until the pinned memory holds what was fetched, and nothing reads what it held before.
  void settle() const {
    if (used_ > 0) stream_.synchronize();
  }
  /// Copies all that has arrived, on `stream`, and gives the block back.
  void deliver(const Stream& stream) {
    stream.wait(copied_);
    for (const Arrival& arrival : arrivals_) {
      stream.copy(arrival.device, arrival.staged, arrival.bytes);
    }
    stream.record(block_.idle);
    pool_.give_back(std::move(block_));
  }

 private:
  StagingPool& pool_;
  Stream stream_;
  StagingPool::Block block_;
  std::size_t used_ = 0;
  Event copied_;  ///< messages to the own rank
  std::vector<Arrival> arrivals_;
};

class StagedCommunicator::StagedWork final : public Work {
 public:
  StagedWork(const Runtime& runtime, Staging staging, std::unique_ptr<Work> host)
      : runtime_(&runtime), staging_(std::move(staging)), host_(std::move(host)) {}
  void wait(StreamHandle stream) override {
    host_->wait(stream);
    staging_.deliver(Stream::borrow(*runtime_, stream));
  }

 private:
  const Runtime* runtime_;
  Staging staging_;
  std::unique_ptr<Work> host_;  ///< destroyed first: it withdraws messages from the staging memory
};

StagedCommunicator::StagedCommunicator(std::unique_ptr<Communicator> host, const Device& device,
                                       MemoryKind staging)
    : Communicator(host->member()),
      host_(std::move(host)),
      runtime_(*device.runtime),
      pool_(staging) {}

std::unique_ptr<Work> StagedCommunicator::exchange(std::span<const Send> sends,
                                                   std::span<const Receive> receives,
                                                   StreamHandle stream, Bytes& sent) {
  const auto to_self = self_messages(sends, receives, rank());
  std::size_t bytes = 0;
  for (const Send& send : sends) bytes += send.peer == rank() ? 0 : aligned(send.bytes);
  for (const Receive& receive : receives) {
    bytes += receive.peer == rank() ? 0 : aligned(receive.bytes);
  }
  Staging staging(*this, bytes, stream);
  for (const auto& [send, receive] : to_self) staging.copy_to_self(send, receive);
  std::vector<Send> staged_sends;
  std::vector<Receive> staged_receives;
  for (const Send& send : sends) {
    if (send.peer == rank()) continue;
    std::byte* const place = staging.place(send.bytes);
    staging.stream().copy(place, send.data, send.bytes);
    staged_sends.push_back({place, send.bytes, send.peer});
  }
  for (const Receive& receive : receives) {
    if (receive.peer == rank()) continue;
    std::byte* const place = staging.place(receive.bytes);
    staging.expect(receive.data, place, receive.bytes);
    staged_receives.push_back({place, receive.bytes, receive.peer});
  }
  staging.settle();
  auto host = host_->exchange(staged_sends, staged_receives, {}, sent);
  return std::make_unique<StagedWork>(runtime_, std::move(staging), std::move(host));
}

std::unique_ptr<Work> StagedCommunicator::native_collective(const NativeCall& call,
                                                            StreamHandle stream) {
  require_device_memory(call, rank(), "staged MPI");
  const NativeSizes sizes = sizes_of(call, rank(), size());
  (void)mpi_count(sizes);
  // The input lies in the output's memory where the collective allows that.
  const bool apart = call.op == NativeOp::reduce_scatter || call.op == NativeOp::all_to_all;
  Staging staging(*this, (apart ? aligned(call.in.bytes()) : 0) + aligned(call.out.bytes()),
                  stream);
  View in;
  if (apart) in = staging.place(call.in);
  const View out = staging.place(call.out);
  if (!apart) in = out;
  if (call.op == NativeOp::all_gather) {
    in = out.part(static_cast<std::size_t>(rank()) * sizes.part, sizes.part);
  }
  if (reads_input(call, rank())) staging.fetch(call.in, in);
  staging.expect(call.out, out);
  staging.settle();
  auto host = host_->native_collective({call.op, in, out, call.root}, {});
  return std::make_unique<StagedWork>(runtime_, std::move(staging), std::move(host));
}

}  // namespace zeropp::comm
