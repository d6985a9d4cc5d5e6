#include "lib/comm/cuda/nccl_communicator.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "lib/comm/communicator.hpp"
#include "lib/comm/in_flight.hpp"
#include "lib/comm/lanes.hpp"

namespace zeropp::comm {

namespace {

ncclDataType_t type_of(Dtype dtype) {
  switch (dtype) {
    case Dtype::bf16:
      return ncclBfloat16;
    case Dtype::fp16:
      return ncclFloat16;
    case Dtype::fp32:
      break;
  }
  return ncclFloat32;
}

cudaStream_t native(const Stream& stream) {
  return static_cast<cudaStream_t>(stream.handle().native);
}

class NcclWork final : public Work {
 public:
  NcclWork(const Runtime& runtime, Event done) : runtime_(&runtime), done_(std::move(done)) {}
  void wait(StreamHandle stream) override {
    in_flight_.complete();
    Stream::borrow(*runtime_, stream).wait(done_);
  }

 private:
  const Runtime* runtime_;
  Event done_;
  InFlight in_flight_;
};

}  // namespace

NcclCommunicator::Lane::Lane(const std::string& group, int rank, int size, const Device& device,
                             const ncclUniqueId& id)
    : stream(device.make_stream(("nccl " + group).c_str(), StreamPriority::high)),
      handle(group, rank, size, id) {}

NcclCommunicator::NcclCommunicator(Membership member, const Device& device,
                                   std::span<const ncclUniqueId> ids, const ncclUniqueId* copies)
    : Communicator(std::move(member)), runtime_(*device.runtime) {
  for (const ncclUniqueId& id : ids) lanes_.emplace_back(name(), rank(), size(), device, id);
  if (copies != nullptr) copies_.emplace(name() + " copies", rank(), size(), *copies);
}

void NcclCommunicator::follow(StreamHandle caller) {
  Stream::borrow(runtime_, caller).record(ready_);
  own().stream.wait(ready_);
}

std::unique_ptr<Work> NcclCommunicator::started() {
  Event done;
  own().stream.record(done);
  return std::make_unique<NcclWork>(runtime_, std::move(done));
}

void NcclCommunicator::move(const char* operation, std::span<const Send> sends,
                            std::span<const Receive> receives, StreamHandle caller) {
  const auto to_self = self_messages(sends, receives, rank());
  send_to_others(operation, sends, receives);
  if (to_self.empty()) return;
  const Stream beside = Stream::borrow(runtime_, caller);
  for (const auto& [send, receive] : to_self) beside.copy(receive.data, send.data, send.bytes);
  beside.record(copied_);
  own().stream.wait(copied_);
}

void NcclCommunicator::send_to_others(const char* operation, std::span<const Send> sends,
                                      std::span<const Receive> receives) {
  // A message of zero bytes is not sent: both sides know the size.
  const auto carried = [&](const auto& message, std::size_t lane) -> Slice {
    if (message.peer == rank()) return {};
    const bool crosses = link_to(message.peer) == LinkClass::inter_node;
    return slice_of(message.bytes, crosses ? lanes_.size() : 1, lane);
  };
  // Later lanes carry nothing of short messages: those that carry something come first.
  std::vector<NcclHandle*> busy;
  for (std::size_t lane = 0; lane < lanes_.size(); ++lane) {
    const auto has_part = [&](const auto& message) { return carried(message, lane).bytes > 0; };
    if (std::ranges::none_of(sends, has_part) && std::ranges::none_of(receives, has_part)) break;
    busy.push_back(&lanes_[lane].handle);
    if (lane > 0) lanes_[lane].stream.wait(ready_);
  }
  if (busy.empty()) return;
  std::size_t bytes = 0;
  for (const Send& send : sends) bytes += send.peer == rank() ? 0 : send.bytes;
  NcclHandle::run_group(operation, bytes, busy, [&](std::size_t lane, ncclComm_t comm) {
    const cudaStream_t stream = native(lanes_[lane].stream);
    for (const Send& send : sends) {
      const Slice slice = carried(send, lane);
      if (slice.bytes == 0) continue;
      const ncclResult_t status =
          ncclSend(send.data + slice.first, slice.bytes, ncclUint8, send.peer, comm, stream);
      if (status != ncclSuccess) return status;
    }
    for (const Receive& receive : receives) {
      const Slice slice = carried(receive, lane);
      if (slice.bytes == 0) continue;
      const ncclResult_t status =
          ncclRecv(receive.data + slice.first, slice.bytes, ncclUint8, receive.peer, comm, stream);
      if (status != ncclSuccess) return status;
    }
    return ncclSuccess;
  });
  for (std::size_t lane = 1; lane < busy.size(); ++lane) {
    lanes_[lane].stream.record(lanes_[lane].done);
    own().stream.wait(lanes_[lane].done);
  }
}

std::unique_ptr<Work> NcclCommunicator::exchange(std::span<const Send> sends,
                                                 std::span<const Receive> receives,
                                                 StreamHandle stream, Bytes& sent) {
  follow(stream);
  move("exchange", sends, receives, stream);
  for (const Send& send : sends) sent.add(link_to(send.peer), send.bytes);
  return started();
}

std::unique_ptr<Work> NcclCommunicator::exchange_equal(const std::byte* out, std::byte* in,
                                                       std::size_t bytes, StreamHandle stream,
                                                       Bytes& sent) {
  const std::size_t all = member().links.size() * bytes;
  if (!copies_ || !copies_->carries(out, all, bytes) || !copies_->carries(in, all, bytes)) {
    return Communicator::exchange_equal(out, in, bytes, stream, sent);
  }
  follow(stream);
  copies_->exchange_equal(out, in, bytes, native(own().stream));
  count_to_others(bytes, sent);
  return started();
}

std::unique_ptr<Work> NcclCommunicator::all_gather_in_place(std::byte* pieces, std::size_t stride,
                                                            std::size_t bytes, StreamHandle stream,
                                                            Bytes& sent) {
  if (!copies_ || stride != bytes ||
      !copies_->carries(pieces, member().links.size() * bytes, bytes)) {
    return Communicator::all_gather_in_place(pieces, stride, bytes, stream, sent);
  }
  follow(stream);
  copies_->all_gather_in_place(pieces, bytes, native(own().stream));
  count_to_others(bytes, sent);
  return started();
}

std::unique_ptr<RegisteredMemory> NcclCommunicator::register_memory(std::span<std::byte> memory) {
  return copies_ ? copies_->register_memory(memory) : nullptr;
}

void NcclCommunicator::count_to_others(std::size_t bytes, Bytes& sent) const {
  for (const LinkClass link : member().links) sent.add(link, bytes);
}

ncclResult_t NcclCommunicator::enqueue(const NativeCall& call, std::size_t count, ncclComm_t comm) {
  const void* const in = call.in.data;
  void* const out = call.out.data;
  const ncclDataType_t type = type_of(call.out.dtype);
  const cudaStream_t stream = native(own().stream);
  switch (call.op) {
    case NativeOp::all_gather:
      return ncclAllGather(in, out, count, type, comm, stream);
    case NativeOp::reduce_scatter:
      return ncclReduceScatter(in, out, count, type, ncclSum, comm, stream);
    case NativeOp::all_reduce:
      return ncclAllReduce(in, out, count, type, ncclSum, comm, stream);
    case NativeOp::broadcast:
      return ncclBroadcast(in, out, count, type, call.root, comm, stream);
    case NativeOp::all_to_all:
      break;
  }
  throw std::logic_error("an all-to-all over NCCL is an exchange");
}

std::unique_ptr<Work> NcclCommunicator::native_collective(const NativeCall& call,
                                                          StreamHandle stream) {
  require_device_memory(call, rank(), "NCCL");
  const NativeSizes sizes = sizes_of(call, rank(), size());
  follow(stream);
  if (call.op == NativeOp::all_to_all) {
    const auto [sends, receives] =
        equal_pieces(static_cast<const std::byte*>(call.in.data),
                     static_cast<std::byte*>(call.out.data), sizes.part * size_of(call.in.dtype));
    move(name_of(call.op), sends, receives, stream);
  } else if (sizes.part > 0) {
    own().handle.run(name_of(call.op), whole_bytes(call, sizes),
                     [&](ncclComm_t comm) { return enqueue(call, sizes.part, comm); });
  }
  return started();
}

}  // namespace zeropp::comm
