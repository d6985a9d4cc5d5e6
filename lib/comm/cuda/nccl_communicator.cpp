#include "lib/comm/cuda/nccl_communicator.hpp"

#include <utility>

#include "lib/comm/in_flight.hpp"
#include "lib/comm/native_checks.hpp"
#include "lib/comm/self_messages.hpp"

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

NcclCommunicator::NcclCommunicator(std::string name, int rank, std::vector<LinkClass> links,
                                   const Device& device, const ncclUniqueId& id)
    : name_(std::move(name)),
      rank_(rank),
      links_(std::move(links)),
      runtime_(*device.runtime),
      stream_(device.make_stream(("nccl " + name_).c_str(), StreamPriority::high)),
      handle_(name_, rank_, static_cast<int>(links_.size()), id) {}

void NcclCommunicator::follow(StreamHandle caller) {
  Stream::borrow(runtime_, caller).record(ready_);
  stream_.wait(ready_);
}

std::unique_ptr<Work> NcclCommunicator::started() {
  Event done;
  stream_.record(done);
  return std::make_unique<NcclWork>(runtime_, std::move(done));
}

void NcclCommunicator::move(const char* operation, std::span<const Send> sends,
                            std::span<const Receive> receives) {
  for (const auto& [send, receive] : self_messages(sends, receives, rank_)) {
    stream_.copy(receive.data, send.data, send.bytes);
  }
  // Zero bytes are no message: both sides know the size.
  const auto travels = [this](const auto& message) {
    return message.peer != rank_ && message.bytes > 0;
  };
  handle_.run_group(operation, [&](ncclComm_t comm) {
    for (const Send& send : sends) {
      if (!travels(send)) continue;
      const ncclResult_t status =
          ncclSend(send.data, send.bytes, ncclUint8, send.peer, comm, native(stream_));
      if (NcclHandle::is_error(status)) return status;
    }
    for (const Receive& receive : receives) {
      if (!travels(receive)) continue;
      const ncclResult_t status =
          ncclRecv(receive.data, receive.bytes, ncclUint8, receive.peer, comm, native(stream_));
      if (NcclHandle::is_error(status)) return status;
    }
    return ncclSuccess;
  });
}

std::unique_ptr<Work> NcclCommunicator::exchange(std::span<const Send> sends,
                                                 std::span<const Receive> receives,
                                                 StreamHandle stream, Bytes& sent) {
  follow(stream);
  move("exchange", sends, receives);
  for (const Send& send : sends) sent.add(link_to(send.peer), send.bytes);
  return started();
}

std::unique_ptr<Work> NcclCommunicator::native_all_gather(ConstView part, View full,
                                                          StreamHandle stream) {
  require_device_memory(part, "NCCL");
  require_device_memory(full, "NCCL");
  require_equal_parts(full.count, part.count, size());
  follow(stream);
  if (part.count > 0) {
    handle_.run("all-gather", [&](ncclComm_t comm) {
      return ncclAllGather(part.data, full.data, part.count, type_of(part.dtype), comm,
                           native(stream_));
    });
  }
  return started();
}

std::unique_ptr<Work> NcclCommunicator::native_reduce_scatter(ConstView full, View part,
                                                              StreamHandle stream) {
  require_device_memory(full, "NCCL");
  require_device_memory(part, "NCCL");
  require_equal_parts(full.count, part.count, size());
  follow(stream);
  if (part.count > 0) {
    handle_.run("reduce-scatter", [&](ncclComm_t comm) {
      return ncclReduceScatter(full.data, part.data, part.count, type_of(full.dtype), ncclSum, comm,
                               native(stream_));
    });
  }
  return started();
}

std::unique_ptr<Work> NcclCommunicator::native_all_reduce(View in_place, StreamHandle stream) {
  require_device_memory(in_place, "NCCL");
  follow(stream);
  if (in_place.count > 0) {
    handle_.run("all-reduce", [&](ncclComm_t comm) {
      return ncclAllReduce(in_place.data, in_place.data, in_place.count, type_of(in_place.dtype),
                           ncclSum, comm, native(stream_));
    });
  }
  return started();
}

std::unique_ptr<Work> NcclCommunicator::native_all_to_all(ConstView in, View out,
                                                          StreamHandle stream) {
  require_device_memory(in, "NCCL");
  require_device_memory(out, "NCCL");
  const std::size_t part = out.count / static_cast<std::size_t>(size());
  require_equal_parts(in.count, part, size());
  require_equal_parts(out.count, part, size());
  const std::size_t bytes = part * size_of(in.dtype);
  std::vector<Send> sends;
  std::vector<Receive> receives;
  for (int peer = 0; peer < size(); ++peer) {
    const std::size_t first = static_cast<std::size_t>(peer) * bytes;
    sends.push_back({static_cast<const std::byte*>(in.data) + first, bytes, peer});
    receives.push_back({static_cast<std::byte*>(out.data) + first, bytes, peer});
  }
  follow(stream);
  move("all-to-all", sends, receives);
  return started();
}

}  // namespace zeropp::comm
