#include "lib/comm/staged_communicator.hpp"

#include <utility>
#include <vector>

#include "lib/base/checked.hpp"
#include "lib/comm/native_checks.hpp"
#include "lib/comm/self_messages.hpp"

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
  /// The same for elements like those of `device`.
  View place(const ConstView& device) {
    return {place(device.bytes()), device.count, device.dtype, block_.memory.kind()};
  }
  /// A copy on the stream, which is done for whoever waits for the operation.
  void copy_to_self(const Send& send, const Receive& receive) {
    stream_.copy(receive.data, send.data, send.bytes);
    stream_.record(copied_);
  }
  /// Device memory -> pinned memory, on the stream.
  void fetch(const ConstView& device, const View& staged) const {
    stream_.copy(static_cast<std::byte*>(staged.data), static_cast<const std::byte*>(device.data),
                 device.bytes());
  }
  /// At wait(), `staged` is copied to `device`.
  void expect(const View& device, const View& staged) {
    expect(static_cast<std::byte*>(device.data), static_cast<const std::byte*>(staged.data),
           device.bytes());
  }
  void expect(std::byte* device, const std::byte* staged, std::size_t bytes) {
    arrivals_.push_back({device, staged, bytes});
  }
  /// Until the pinned memory holds what was fetched, and nothing reads what it held before.
  void settle() const {
    if (used_ > 0) stream_.synchronize();
  }
  /// Everything has arrived: copies it, on `stream`, and gives the block back.
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
    : host_(std::move(host)), runtime_(*device.runtime), pool_(staging) {}

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

std::unique_ptr<Work> StagedCommunicator::native_all_gather(ConstView part, View full,
                                                            StreamHandle stream) {
  require_device_memory(part, "staged MPI");
  require_device_memory(full, "staged MPI");
  require_equal_parts(full.count, part.count, size());
  (void)mpi_count(part.count, full.count);
  Staging staging(*this, aligned(full.bytes()), stream);
  const View staged = staging.place(full);
  const View own = staged.part(static_cast<std::size_t>(rank()) * part.count, part.count);
  staging.fetch(part, own);
  staging.expect(full, staged);
  staging.settle();
  auto host = host_->native_all_gather(own, staged, {});
  return std::make_unique<StagedWork>(runtime_, std::move(staging), std::move(host));
}

std::unique_ptr<Work> StagedCommunicator::native_reduce_scatter(ConstView full, View part,
                                                                StreamHandle stream) {
  require_device_memory(full, "staged MPI");
  require_device_memory(part, "staged MPI");
  require_equal_parts(full.count, part.count, size());
  (void)mpi_count(part.count, full.count);
  Staging staging(*this, aligned(full.bytes()) + aligned(part.bytes()), stream);
  const View staged_full = staging.place(full);
  const View staged_part = staging.place(part);
  staging.fetch(full, staged_full);
  staging.expect(part, staged_part);
  staging.settle();
  auto host = host_->native_reduce_scatter(staged_full, staged_part, {});
  return std::make_unique<StagedWork>(runtime_, std::move(staging), std::move(host));
}

std::unique_ptr<Work> StagedCommunicator::native_all_reduce(ConstView in, View out,
                                                            StreamHandle stream) {
  require_device_memory(in, "staged MPI");
  require_device_memory(out, "staged MPI");
  require_equal_parts(out.count, in.count, 1);
  (void)mpi_count(out.count, out.count);
  Staging staging(*this, aligned(out.bytes()), stream);
  const View staged = staging.place(out);
  staging.fetch(in, staged);
  staging.expect(out, staged);
  staging.settle();
  auto host = host_->native_all_reduce(staged, staged, {});
  return std::make_unique<StagedWork>(runtime_, std::move(staging), std::move(host));
}

std::unique_ptr<Work> StagedCommunicator::native_broadcast(ConstView in, View out, int root,
                                                           StreamHandle stream) {
  require_device_memory(out, "staged MPI");
  (void)mpi_count(out.count, out.count);
  const bool sends = rank() == root;
  if (sends) {
    require_device_memory(in, "staged MPI");
    require_equal_parts(out.count, in.count, 1);
  }
  Staging staging(*this, aligned(out.bytes()), stream);
  const View staged = staging.place(out);
  if (sends) staging.fetch(in, staged);
  staging.expect(out, staged);
  staging.settle();
  auto host = host_->native_broadcast(staged, staged, root, {});
  return std::make_unique<StagedWork>(runtime_, std::move(staging), std::move(host));
}

std::unique_ptr<Work> StagedCommunicator::native_all_to_all(ConstView in, View out,
                                                            StreamHandle stream) {
  require_device_memory(in, "staged MPI");
  require_device_memory(out, "staged MPI");
  const std::size_t part = out.count / static_cast<std::size_t>(size());
  require_equal_parts(in.count, part, size());
  require_equal_parts(out.count, part, size());
  (void)mpi_count(part, out.count);
  Staging staging(*this, aligned(in.bytes()) + aligned(out.bytes()), stream);
  const View staged_in = staging.place(in);
  const View staged_out = staging.place(out);
  staging.fetch(in, staged_in);
  staging.expect(out, staged_out);
  staging.settle();
  auto host = host_->native_all_to_all(staged_in, staged_out, {});
  return std::make_unique<StagedWork>(runtime_, std::move(staging), std::move(host));
}

}  // namespace zeropp::comm
