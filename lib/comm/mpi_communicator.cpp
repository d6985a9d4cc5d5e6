#include "lib/comm/mpi_communicator.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "lib/base/checked.hpp"
#include "lib/comm/mpi_check.hpp"
#include "lib/comm/mpi_half_sum.hpp"
#include "lib/comm/mpi_work.hpp"

namespace zeropp::comm {

namespace {

MPI_Datatype type_of(Dtype dtype) { return dtype == Dtype::fp32 ? MPI_FLOAT : MPI_UINT16_T; }

void require_host(MemoryKind kind) {
  if (kind == MemoryKind::device) {
    throw Error(ExitCode::environment,
                "the MPI communicator was given device memory: use host memory, or the "
                "communicator of the device");
  }
}

/// Counts of MPI's collectives are int, and some libraries add them up in int as well: the whole
/// buffer has to fit, not only one rank's part.
int native_count(std::size_t part_elements, std::size_t total_elements) {
  if (!std::in_range<int>(total_elements)) {
    throw Error(
        ExitCode::environment,
        fmt::format("{} elements are too many for MPI's own collective (at most {}): choose "
                    "an algorithm other than native, or smaller buckets",
                    total_elements, std::numeric_limits<int>::max()));
  }
  return static_cast<int>(part_elements);
}

std::unique_ptr<Work> collective_work(MPI_Request request) {
  return std::make_unique<MpiWork>(MpiWork::Kind::collective, std::vector<MPI_Request>{request});
}

void require_equal_parts(std::size_t whole, std::size_t part, int ranks) {
  if (whole != part * static_cast<std::size_t>(ranks)) {
    throw Error(ExitCode::environment,
                fmt::format("a collective over {} ranks was given {} elements for parts of {}",
                            ranks, whole, part));
  }
}

/// Messages to the own rank: sends and receives match in order, as they do in MPI.
void copy_to_self(std::span<const Send> sends, std::span<const Receive> receives, int self) {
  auto receive = receives.begin();
  for (const Send& send : sends) {
    if (send.peer != self) continue;
    receive = std::find_if(receive, receives.end(),
                           [&](const Receive& candidate) { return candidate.peer == self; });
    if (receive == receives.end() || receive->bytes != send.bytes) {
      throw Error(ExitCode::environment,
                  fmt::format("{} bytes to the own rank have no receive of that size", send.bytes));
    }
    if (send.bytes > 0) std::memcpy(receive->data, send.data, send.bytes);
    ++receive;
  }
}

}  // namespace

MpiCommunicator::MpiCommunicator(std::string name, CommHandle handle, std::vector<LinkClass> links,
                                 std::size_t max_message_bytes)
    : name_(std::move(name)),
      handle_(std::move(handle)),
      links_(std::move(links)),
      max_message_bytes_(max_message_bytes),
      sum_bf16_(make_half_sum(Dtype::bf16)),
      sum_fp16_(make_half_sum(Dtype::fp16)) {
  if (max_message_bytes == 0) {
    throw Error(ExitCode::usage, "the largest message cannot be 0 bytes: give at least 1");
  }
  (void)checked<int>(max_message_bytes, "the largest message, in bytes,");
  check(MPI_Comm_rank(handle_.get(), &rank_));
  int* value = nullptr;
  int found = 0;
  check(MPI_Comm_get_attr(handle_.get(), MPI_TAG_UB, static_cast<void*>(&value), &found));
  if (found != 0) largest_tag_ = *value;
}

int MpiCommunicator::next_tag() {
  const int tag = tag_;
  tag_ = tag_ == largest_tag_ ? 0 : tag_ + 1;
  return tag;
}

MPI_Op MpiCommunicator::sum_of(Dtype dtype) const {
  if (dtype == Dtype::fp32) return MPI_SUM;
  return dtype == Dtype::bf16 ? sum_bf16_.get() : sum_fp16_.get();
}

std::unique_ptr<Work> MpiCommunicator::exchange(std::span<const Send> sends,
                                                std::span<const Receive> receives,
                                                StreamHandle /*inline*/, Bytes& sent) {
  const int tag = next_tag();
  std::vector<MPI_Request> requests;
  // Both sides cut a message in the same places; MPI keeps the order of one pair, tag and
  // communicator.
  const auto start = [&](auto* data, std::size_t bytes, auto&& call) {
    for (std::size_t first = 0; first < bytes; first += max_message_bytes_) {
      const int count =
          checked<int>(std::min(max_message_bytes_, bytes - first), "the bytes of a message,");
      requests.push_back(MPI_REQUEST_NULL);
      check(call(data + first, count, &requests.back()));
    }
  };
  for (const Receive& receive : receives) {
    if (receive.peer == rank_) continue;
    start(receive.data, receive.bytes, [&](std::byte* data, int count, MPI_Request* request) {
      return MPI_Irecv(data, count, MPI_BYTE, receive.peer, tag, handle_.get(), request);
    });
  }
  for (const Send& send : sends) {
    if (send.peer == rank_) continue;
    start(send.data, send.bytes, [&](const std::byte* data, int count, MPI_Request* request) {
      return MPI_Isend(data, count, MPI_BYTE, send.peer, tag, handle_.get(), request);
    });
    sent.add(link_to(send.peer), send.bytes);
  }
  copy_to_self(sends, receives, rank_);
  return std::make_unique<MpiWork>(MpiWork::Kind::point_to_point, std::move(requests));
}

std::unique_ptr<Work> MpiCommunicator::native_all_gather(ConstView part, View full,
                                                         StreamHandle /*inline*/) {
  require_host(part.kind);
  require_host(full.kind);
  require_equal_parts(full.count, part.count, size());
  const int count = native_count(part.count, full.count);
  const auto own = full.part(static_cast<std::size_t>(rank_) * part.count, part.count);
  MPI_Request request = MPI_REQUEST_NULL;
  check(MPI_Iallgather(part.data == own.data ? MPI_IN_PLACE : part.data, count, type_of(part.dtype),
                       full.data, count, type_of(full.dtype), handle_.get(), &request));
  return collective_work(request);
}

std::unique_ptr<Work> MpiCommunicator::native_reduce_scatter(ConstView full, View part,
                                                             StreamHandle /*inline*/) {
  require_host(full.kind);
  require_host(part.kind);
  require_equal_parts(full.count, part.count, size());
  const int count = native_count(part.count, full.count);
  MPI_Request request = MPI_REQUEST_NULL;
  check(MPI_Ireduce_scatter_block(full.data, part.data, count, type_of(full.dtype),
                                  sum_of(full.dtype), handle_.get(), &request));
  return collective_work(request);
}

std::unique_ptr<Work> MpiCommunicator::native_all_reduce(View in_place, StreamHandle /*inline*/) {
  require_host(in_place.kind);
  const int count = native_count(in_place.count, in_place.count);
  MPI_Request request = MPI_REQUEST_NULL;
  check(MPI_Iallreduce(MPI_IN_PLACE, in_place.data, count, type_of(in_place.dtype),
                       sum_of(in_place.dtype), handle_.get(), &request));
  return collective_work(request);
}

std::unique_ptr<Work> MpiCommunicator::native_all_to_all(ConstView in, View out,
                                                         StreamHandle /*inline*/) {
  require_host(in.kind);
  require_host(out.kind);
  const std::size_t part = out.count / static_cast<std::size_t>(size());
  require_equal_parts(in.count, part, size());
  require_equal_parts(out.count, part, size());
  const int count = native_count(part, out.count);
  MPI_Request request = MPI_REQUEST_NULL;
  check(MPI_Ialltoall(in.data, count, type_of(in.dtype), out.data, count, type_of(out.dtype),
                      handle_.get(), &request));
  return collective_work(request);
}

}  // namespace zeropp::comm
