// The callbacks of the C interface over MPI, and what tests of it share.
#pragma once

#include <gtest/gtest.h>
#include <mpi.h>

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "lib/c/zeropp.h"
#include "lib/device/stream.hpp"
#include "tests/support/mpi_world.hpp"

namespace zeropp::test {

/// The callbacks of a communicator on test::device(). Counts what passes, and fails where it is
/// told to. Messages of device memory go through host memory: the stream is waited for.
struct MpiCallbacks {
  std::size_t bytes_sent = 0;
  bool saw_own_message = false;
  int status = 0;  ///< that exchange() returns

  [[nodiscard]] zpp_callbacks table() {
    return {.context = this, .all_gather_bytes = all_gather_bytes, .exchange = exchange};
  }

 private:
  static int all_gather_bytes(void* /*context*/, const void* part, void* parts, std::size_t bytes) {
    return MPI_Allgather(part, static_cast<int>(bytes), MPI_BYTE, parts, static_cast<int>(bytes),
                         MPI_BYTE, MPI_COMM_WORLD);
  }

  static int exchange(void* context, const zpp_message* sends, std::size_t send_count,
                      const zpp_message* receives, std::size_t receive_count, void* stream) {
    auto& self = *static_cast<MpiCallbacks*>(context);
    if (self.status != 0) return self.status;
    return self.exchange({sends, send_count}, {receives, receive_count},
                         Stream::borrow(*device().runtime, {stream}));
  }

  int exchange(std::span<const zpp_message> sends, std::span<const zpp_message> receives,
               const Stream& stream) {
    std::vector<std::vector<std::byte>> arrived;
    std::vector<std::vector<std::byte>> leaving;
    std::vector<MPI_Request> requests(sends.size() + receives.size());
    auto request = requests.begin();
    for (const zpp_message& message : receives) {
      saw_own_message |= message.peer == world().rank();
      auto& host = arrived.emplace_back(message.bytes);
      MPI_Irecv(host.data(), static_cast<int>(message.bytes), MPI_BYTE, message.peer, 7,
                MPI_COMM_WORLD, &*request++);
    }
    for (const zpp_message& message : sends) {
      saw_own_message |= message.peer == world().rank();
      bytes_sent += message.bytes;
      auto& host = leaving.emplace_back(message.bytes);
      stream.copy(host.data(), static_cast<const std::byte*>(message.data), message.bytes);
      stream.synchronize();
      MPI_Isend(host.data(), static_cast<int>(message.bytes), MPI_BYTE, message.peer, 7,
                MPI_COMM_WORLD, &*request++);
    }
    const int result =
        MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE);
    for (std::size_t i = 0; i < receives.size(); ++i) {
      stream.copy(static_cast<std::byte*>(receives[i].data), arrived[i].data(), arrived[i].size());
    }
    stream.synchronize();
    return result;
  }
};

struct EndComm {
  void operator()(zpp_comm* comm) const { zpp_comm_destroy(comm); }
};
struct EndPlan {
  void operator()(zpp_plan* plan) const { zpp_plan_destroy(plan); }
};
using OwnedComm = std::unique_ptr<zpp_comm, EndComm>;
using OwnedPlan = std::unique_ptr<zpp_plan, EndPlan>;

/// Options of a communicator on test::device(), by test::transport().
inline zpp_comm_options comm_options(int rank, int size, int node_size) {
  return {.struct_size = sizeof(zpp_comm_options),
          .rank = rank,
          .size = size,
          .node_size = node_size,
          .device = device().backend == Backend::cuda ? ZPP_CUDA : ZPP_HOST,
          .transport = transport() == comm::Transport::nccl ? ZPP_NCCL : ZPP_CALLBACKS,
          .rail_lanes = 0,
          .copy_engines = -1};
}

/// A communicator of all ranks of MPI over callbacks that outlive it.
inline OwnedComm make_comm(MpiCallbacks& callbacks, int rank, int size, int node_size) {
  const zpp_comm_options options = comm_options(rank, size, node_size);
  const zpp_callbacks table = callbacks.table();
  zpp_comm* comm = nullptr;
  EXPECT_EQ(zpp_comm_create(&options, &table, &comm), ZPP_OK) << zpp_last_error();
  return OwnedComm(comm);
}

inline zpp_plan_options plan_options(std::size_t count, const char* codec) {
  return {.struct_size = sizeof(zpp_plan_options),
          .count = count,
          .input = ZPP_FP32,
          .output = ZPP_FP32,
          .codec = codec,
          .codec_between_nodes = nullptr,
          .algorithm = nullptr,
          .scale = 1,
          .seed = 0,
          .error_feedback = nullptr};
}

using MakePlan = zpp_status (*)(zpp_comm*, const zpp_plan_options*, zpp_plan**);

inline OwnedPlan make_plan(MakePlan make, const OwnedComm& comm, const zpp_plan_options& options) {
  zpp_plan* plan = nullptr;
  EXPECT_EQ(make(comm.get(), &options, &plan), ZPP_OK) << zpp_last_error();
  return OwnedPlan(plan);
}

}  // namespace zeropp::test
