#include "tests/support/pmpi_counter.hpp"

#include <mpi.h>

#include <cstdio>
#include <cstdlib>
#include <utility>

namespace {

zeropp::test::PmpiCounts counts;

void size_for(int ranks) {
  counts.bytes_to.resize(static_cast<std::size_t>(ranks));
  counts.sends_to.resize(static_cast<std::size_t>(ranks));
}

void count_send(int elements, MPI_Datatype type, int destination, MPI_Comm comm) {
  int element_size = 0;
  PMPI_Type_size(type, &element_size);
  int world_size = 0;
  PMPI_Comm_size(MPI_COMM_WORLD, &world_size);
  size_for(world_size);
  MPI_Group group = MPI_GROUP_NULL;
  MPI_Group world = MPI_GROUP_NULL;
  PMPI_Comm_group(comm, &group);
  PMPI_Comm_group(MPI_COMM_WORLD, &world);
  int world_rank = MPI_UNDEFINED;
  PMPI_Group_translate_ranks(group, 1, &destination, world, &world_rank);
  PMPI_Group_free(&group);
  PMPI_Group_free(&world);
  counts.bytes_to.at(static_cast<std::size_t>(world_rank)) +=
      static_cast<std::uint64_t>(elements) * static_cast<std::uint64_t>(element_size);
  ++counts.sends_to.at(static_cast<std::size_t>(world_rank));
}

/// A way to send that nobody uses yet would escape the count.
int uncounted(const char* name) {
  std::fprintf(stderr, "pmpi_counter: %s is not counted: teach tests/support/pmpi_counter.cpp\n",
               name);
  std::abort();
}

}  // namespace

namespace zeropp::test {
PmpiCounts take_pmpi_counts() {
  int world_size = 0;
  PMPI_Comm_size(MPI_COMM_WORLD, &world_size);
  size_for(world_size);
  return std::exchange(counts, {});
}
}  // namespace zeropp::test

extern "C" {

int MPI_Send(const void* data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm) {
  count_send(count, type, to, comm);
  return PMPI_Send(data, count, type, to, tag, comm);
}

int MPI_Isend(const void* data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm,
              MPI_Request* request) {
  count_send(count, type, to, comm);
  return PMPI_Isend(data, count, type, to, tag, comm, request);
}

int MPI_Sendrecv(const void* out, int out_count, MPI_Datatype out_type, int to, int out_tag,
                 void* in, int in_count, MPI_Datatype in_type, int from, int in_tag, MPI_Comm comm,
                 MPI_Status* status) {
  count_send(out_count, out_type, to, comm);
  return PMPI_Sendrecv(out, out_count, out_type, to, out_tag, in, in_count, in_type, from, in_tag,
                       comm, status);
}

int MPI_Ssend(const void*, int, MPI_Datatype, int, int, MPI_Comm) { return uncounted("MPI_Ssend"); }
int MPI_Rsend(const void*, int, MPI_Datatype, int, int, MPI_Comm) { return uncounted("MPI_Rsend"); }
int MPI_Bsend(const void*, int, MPI_Datatype, int, int, MPI_Comm) { return uncounted("MPI_Bsend"); }
int MPI_Issend(const void*, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request*) {
  return uncounted("MPI_Issend");
}
int MPI_Send_init(const void*, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request*) {
  return uncounted("MPI_Send_init");
}
int MPI_Put(const void*, int, MPI_Datatype, int, MPI_Aint, int, MPI_Datatype, MPI_Win) {
  return uncounted("MPI_Put");
}

int MPI_Iallgather(const void* out, int out_count, MPI_Datatype out_type, void* in, int in_count,
                   MPI_Datatype in_type, MPI_Comm comm, MPI_Request* request) {
  ++counts.collectives;
  return PMPI_Iallgather(out, out_count, out_type, in, in_count, in_type, comm, request);
}

int MPI_Ialltoall(const void* out, int out_count, MPI_Datatype out_type, void* in, int in_count,
                  MPI_Datatype in_type, MPI_Comm comm, MPI_Request* request) {
  ++counts.collectives;
  return PMPI_Ialltoall(out, out_count, out_type, in, in_count, in_type, comm, request);
}

int MPI_Ireduce_scatter_block(const void* in, void* out, int count, MPI_Datatype type, MPI_Op op,
                              MPI_Comm comm, MPI_Request* request) {
  ++counts.collectives;
  return PMPI_Ireduce_scatter_block(in, out, count, type, op, comm, request);
}

int MPI_Iallreduce(const void* in, void* out, int count, MPI_Datatype type, MPI_Op op,
                   MPI_Comm comm, MPI_Request* request) {
  ++counts.collectives;
  return PMPI_Iallreduce(in, out, count, type, op, comm, request);
}
}
