#include "lib/comm/mpi_communicator.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "kernels/core/half.hpp"
#include "lib/base/checked.hpp"
#include "lib/base/fault.hpp"
#include "lib/base/poll.hpp"
#include "lib/comm/communicator.hpp"
#include "lib/comm/flight_record.hpp"
#include "lib/comm/in_flight.hpp"
#include "lib/comm/mpi_check.hpp"
#include "lib/comm/pieces.hpp"

namespace zeropp::comm {

namespace {

MPI_Datatype type_of(Dtype dtype) { return dtype == Dtype::fp32 ? MPI_FLOAT : MPI_UINT16_T; }

/// Adds values of a 16-bit format, which MPI does not have: they travel as MPI_UINT16_T, and every
/// addition is done in fp32 and rounded to the format.
template <class Half, Half (*round)(float)>
void add_halves(void* in, void* in_out, int* count, MPI_Datatype* /*uint16*/) {
  const auto* addend = static_cast<const Half*>(in);
  auto* total = static_cast<Half*>(in_out);
  for (int i = 0; i < *count; ++i) total[i] = round(to_float(addend[i]) + to_float(total[i]));
}

/// Sum over `dtype`, bf16 or fp16.
OpHandle make_half_sum(Dtype dtype) {
  MPI_Op op = MPI_OP_NULL;
  check(MPI_Op_create(
      dtype == Dtype::bf16 ? add_halves<Bf16, round_to_bf16> : add_halves<Fp16, round_to_fp16>,
      /*commute=*/1, &op));
  return OpHandle(op);
}

/// MPI requests in flight.
class MpiWork final : public Work {
 public:
  enum class Kind { point_to_point, collective };
  /// `number`: of the operation in the flight record.
  MpiWork(Kind kind, std::vector<MPI_Request> requests, std::uint64_t number)
      : kind_(kind), requests_(std::move(requests)), number_(number) {}
  /// Unwinding the stack, it withdraws its messages instead of waiting for ranks that may be gone.
  /// The memory goes with the stack: what is under way already is waited for, a second at most.
  ~MpiWork() override;
  MpiWork(const MpiWork&) = delete;
  MpiWork& operator=(const MpiWork&) = delete;

  void wait(StreamHandle stream) override;

 private:
  void complete_within(Seconds deadline);

  Kind kind_;
  std::vector<MPI_Request> requests_;
  std::uint64_t number_;
  InFlight in_flight_;
};

/// Time for requests that cannot be withdrawn any more: either the ranks at their other ends are in
/// MPI too, or nobody answers them, and then nothing is written.
constexpr Seconds kWithdrawal{1};

MpiWork::~MpiWork() {
  if (in_flight_.is_complete() || !in_flight_.unwinding()) return;
  // MPI offers no way to withdraw a collective, nor to free its request before it is complete.
  const bool can_withdraw = kind_ == Kind::point_to_point;
  for (MPI_Request& request : requests_) {
    if (can_withdraw && request != MPI_REQUEST_NULL) MPI_Cancel(&request);
  }
  complete_within(kWithdrawal);
  for (MPI_Request& request : requests_) {
    if (can_withdraw && request != MPI_REQUEST_NULL) MPI_Request_free(&request);
  }
}

void MpiWork::complete_within(Seconds deadline) {
  const int count = static_cast<int>(requests_.size());
  (void)poll(
      [&](Seconds /*waited*/) {
        int done = 0;
        const int status = MPI_Testall(count, requests_.data(), &done, MPI_STATUSES_IGNORE);
        if (status != MPI_SUCCESS) return Progress::failed;
        return done != 0 ? Progress::done : Progress::pending;
      },
      deadline);
}

void MpiWork::wait(StreamHandle /*stream*/) {
  in_flight_.complete();
  const Waiting waiting(number_);
  // Requests are waited for one by one: MPI_Waitall would return MPI_ERR_IN_STATUS instead of the
  // error.
  for (MPI_Request& request : requests_) check(MPI_Wait(&request, MPI_STATUS_IGNORE));
}

int rank_in(const CommHandle& handle) {
  int rank = 0;
  check(MPI_Comm_rank(handle.get(), &rank));
  return rank;
}

}  // namespace

MpiCommunicator::MpiCommunicator(std::string name, CommHandle handle, std::vector<LinkClass> links,
                                 std::size_t max_message_bytes)
    : Communicator({std::move(name), rank_in(handle), std::move(links)}),
      log_(Communicator::name()),
      handle_(std::move(handle)),
      max_message_bytes_(max_message_bytes),
      sum_bf16_(make_half_sum(Dtype::bf16)),
      sum_fp16_(make_half_sum(Dtype::fp16)) {
  (void)checked<int>(max_message_bytes, "the largest message, in bytes,");
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
  for (const auto& [send, receive] : self_messages(sends, receives, rank())) {
    std::memcpy(receive.data, send.data, send.bytes);
  }
  const int tag = next_tag();
  std::uint64_t bytes_sent = 0;
  for (const Send& send : sends) bytes_sent += send.peer == rank() ? 0 : send.bytes;
  const std::uint64_t number = log_.begin("exchange", bytes_sent);
  std::vector<MPI_Request> requests;
  // A message is cut in the same places on both sides; MPI keeps the order of one pair, tag and
  // communicator.
  const auto start = [&](auto* data, std::size_t bytes, auto&& call) {
    in_pieces(bytes, max_message_bytes_, [&](std::size_t first, int count) {
      requests.push_back(MPI_REQUEST_NULL);
      check(call(data + first, count, &requests.back()));
    });
  };
  for (const Receive& receive : receives) {
    if (receive.peer == rank()) continue;
    start(receive.data, receive.bytes, [&](std::byte* data, int count, MPI_Request* request) {
      return MPI_Irecv(data, count, MPI_BYTE, receive.peer, tag, handle_.get(), request);
    });
  }
  for (const Send& send : sends) {
    if (send.peer == rank()) continue;
    if (send.bytes > 0 && fault::drops_message(number)) continue;
    start(fault::as_sent(number, send.data, send.bytes), send.bytes,
          [&](const std::byte* data, int count, MPI_Request* request) {
            return MPI_Isend(data, count, MPI_BYTE, send.peer, tag, handle_.get(), request);
          });
    sent.add(link_to(send.peer), send.bytes);
  }
  return std::make_unique<MpiWork>(MpiWork::Kind::point_to_point, std::move(requests), number);
}

int MpiCommunicator::start(const NativeCall& call, int count, MPI_Request* request) const {
  const void* const in = call.in.data;
  void* const out = call.out.data;
  const MPI_Datatype type = type_of(call.out.dtype);
  const MPI_Op sum = sum_of(call.out.dtype);
  MPI_Comm comm = handle_.get();
  switch (call.op) {
    case NativeOp::all_gather: {
      const View own = call.out.part(static_cast<std::size_t>(rank()) * call.in.count, 0);
      return MPI_Iallgather(in == own.data ? MPI_IN_PLACE : in, count, type, out, count, type, comm,
                            request);
    }
    case NativeOp::reduce_scatter:
      return MPI_Ireduce_scatter_block(in, out, count, type, sum, comm, request);
    case NativeOp::all_reduce:
      return MPI_Iallreduce(in == out ? MPI_IN_PLACE : in, out, count, type, sum, comm, request);
    case NativeOp::broadcast:
      return MPI_Ibcast(out, count, type, call.root, comm, request);
    case NativeOp::all_to_all:
      break;
  }
  return MPI_Ialltoall(in, count, type, out, count, type, comm, request);
}

std::unique_ptr<Work> MpiCommunicator::native_collective(const NativeCall& call,
                                                         StreamHandle /*inline*/) {
  require_host_memory(call, rank(), "MPI");
  const NativeSizes sizes = sizes_of(call, rank(), size());
  const int count = mpi_count(sizes);
  if (call.op == NativeOp::broadcast && rank() == call.root && call.in.data != call.out.data &&
      count > 0) {
    std::memcpy(call.out.data, call.in.data, call.in.bytes());
  }
  const std::uint64_t number = log_.begin(name_of(call.op), whole_bytes(call, sizes));
  MPI_Request request = MPI_REQUEST_NULL;
  check(start(call, count, &request));
  return std::make_unique<MpiWork>(MpiWork::Kind::collective, std::vector<MPI_Request>{request},
                                   number);
}

}  // namespace zeropp::comm
