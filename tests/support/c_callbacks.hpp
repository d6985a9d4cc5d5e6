// The callbacks of the C interface over MPI, for memory of the host, and what tests of it share.
#pragma once

#include <gtest/gtest.h>
#include <mpi.h>

#include <cstddef>
#include <memory>
#include <vector>

#include "lib/c/zeropp.h"

namespace zeropp::test {

/// Counts what passes, and fails where it is told to.
struct MpiCallbacks {
  std::size_t exchanges = 0;
  std::size_t bytes_sent = 0;
  bool saw_own_message = false;
  int status = 0;  ///< that exchange() returns

  static int all_gather_bytes(void* /*context*/, const void* part, void* parts, std::size_t bytes) {
    return MPI_Allgather(part, static_cast<int>(bytes), MPI_BYTE, parts, static_cast<int>(bytes),
                         MPI_BYTE, MPI_COMM_WORLD);
  }

  static int exchange(void* context, const zpp_message* sends, std::size_t send_count,
                      const zpp_message* receives, std::size_t receive_count, void* /*stream*/) {
    auto& self = *static_cast<MpiCallbacks*>(context);
    if (self.status != 0) return self.status;
    ++self.exchanges;
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    std::vector<MPI_Request> requests(send_count + receive_count);
    for (std::size_t i = 0; i < receive_count; ++i) {
      self.saw_own_message |= receives[i].peer == rank;
      MPI_Irecv(receives[i].data, static_cast<int>(receives[i].bytes), MPI_BYTE, receives[i].peer,
                7, MPI_COMM_WORLD, &requests[i]);
    }
    for (std::size_t i = 0; i < send_count; ++i) {
      self.saw_own_message |= sends[i].peer == rank;
      self.bytes_sent += sends[i].bytes;
      MPI_Isend(sends[i].data, static_cast<int>(sends[i].bytes), MPI_BYTE, sends[i].peer, 7,
                MPI_COMM_WORLD, &requests[receive_count + i]);
    }
    return MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE);
  }

  [[nodiscard]] zpp_callbacks table() {
    return {.context = this, .all_gather_bytes = all_gather_bytes, .exchange = exchange};
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

inline zpp_comm_options host_options(int rank, int size, int node_size) {
  return {.struct_size = sizeof(zpp_comm_options),
          .rank = rank,
          .size = size,
          .node_size = node_size,
          .device = ZPP_HOST,
          .transport = ZPP_CALLBACKS,
          .rail_lanes = 0,
          .copy_engines = -1};
}

/// A communicator of all ranks of MPI over callbacks that outlive it.
inline OwnedComm make_comm(MpiCallbacks& callbacks, int rank, int size, int node_size) {
  const zpp_comm_options options = host_options(rank, size, node_size);
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
