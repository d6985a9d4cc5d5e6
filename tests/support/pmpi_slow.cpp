// A slow part of a network, preloaded (LD_PRELOAD) under a program that knows nothing of it: sends
// and all-reduces of rank $ZEROPP_PMPI_SLOW_RANK, or sends from the first to the second rank of
// $ZEROPP_PMPI_SLOW_LINK ("1,3"), take $ZEROPP_PMPI_SLOW_MS milliseconds longer. Rank
// $ZEROPP_PMPI_WRONG_RANK adds 1 to the first float that it brings to an all-reduce. Ranks are
// ranks of the world.
#include <mpi.h>

#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>

namespace {

int number_in(const char* variable) {
  const char* const text = std::getenv(variable);
  return text == nullptr ? -1 : std::atoi(text);
}

int rank_in_world(MPI_Comm comm, int rank) {
  MPI_Group own = MPI_GROUP_NULL;
  MPI_Group world = MPI_GROUP_NULL;
  PMPI_Comm_group(comm, &own);
  PMPI_Comm_group(MPI_COMM_WORLD, &world);
  int translated = -1;
  PMPI_Group_translate_ranks(own, 1, &rank, world, &translated);
  PMPI_Group_free(&own);
  PMPI_Group_free(&world);
  return translated;
}

int own_rank() {
  int rank = 0;
  PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank;
}

bool is_slow(MPI_Comm comm, int destination) {
  if (number_in("ZEROPP_PMPI_SLOW_RANK") == own_rank()) return true;
  const char* const link = std::getenv("ZEROPP_PMPI_SLOW_LINK");
  return link != nullptr &&
         std::to_string(own_rank()) + "," + std::to_string(rank_in_world(comm, destination)) ==
             link;
}

void take_longer() {
  std::this_thread::sleep_for(std::chrono::milliseconds(number_in("ZEROPP_PMPI_SLOW_MS")));
}

}  // namespace

extern "C" int MPI_Isend(const void* data, int count, MPI_Datatype type, int destination, int tag,
                         MPI_Comm comm, MPI_Request* request) {
  if (is_slow(comm, destination)) take_longer();
  return PMPI_Isend(data, count, type, destination, tag, comm, request);
}

extern "C" int MPI_Iallreduce(const void* in, void* out, int count, MPI_Datatype type, MPI_Op op,
                              MPI_Comm comm, MPI_Request* request) {
  if (number_in("ZEROPP_PMPI_SLOW_RANK") == own_rank()) take_longer();
  if (number_in("ZEROPP_PMPI_WRONG_RANK") == own_rank() && type == MPI_FLOAT) {
    *static_cast<float*>(const_cast<void*>(in)) += 1;
  }
  return PMPI_Iallreduce(in, out, count, type, op, comm, request);
}
