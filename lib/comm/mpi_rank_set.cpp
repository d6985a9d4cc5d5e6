#include "lib/comm/mpi_rank_set.hpp"

#include <span>
#include <utility>

#include "lib/comm/mpi_communicator.hpp"
#include "lib/comm/nccl.hpp"
#include "lib/comm/staged_communicator.hpp"

namespace zeropp::comm {

namespace {

CommHandle duplicate(MPI_Comm original) {
  MPI_Comm copy = MPI_COMM_NULL;
  check(MPI_Comm_dup(original, &copy));
  return CommHandle(copy);
}

CommHandle part_of(MPI_Comm original, int color, int key) {
  MPI_Comm part = MPI_COMM_NULL;
  check(MPI_Comm_split(original, color, key, &part));
  return CommHandle(part);
}

Host find_host(MPI_Comm launched, int launched_rank) {
  MPI_Comm comm = MPI_COMM_NULL;
  check(MPI_Comm_split_type(launched, MPI_COMM_TYPE_SHARED, launched_rank, MPI_INFO_NULL, &comm));
  const CommHandle owner(comm);
  Host host;
  host.leader = launched_rank;
  check(MPI_Comm_size(comm, &host.ranks));
  check(MPI_Bcast(&host.leader, 1, MPI_INT, 0, comm));
  return host;
}

}  // namespace

MpiRankSet::MpiRankSet(CommHandle launched)
    : launched_(std::move(launched)), control_(duplicate(launched_.get())) {
  check(MPI_Comm_rank(launched_.get(), &launched_rank_));
  check(MPI_Comm_size(launched_.get(), &size_));
  host_ = find_host(launched_.get(), launched_rank_);
}

std::unique_ptr<MpiRankSet> MpiRankSet::of_job() {
  return std::make_unique<MpiRankSet>(duplicate(MPI_COMM_WORLD));
}

std::vector<int> MpiRankSet::all_gather(int value) {
  std::vector<int> all(static_cast<std::size_t>(size_));
  check(MPI_Allgather(&value, 1, MPI_INT, all.data(), 1, MPI_INT, launched_.get()));
  return all;
}

void MpiRankSet::renumber(int key) { control_.use(part_of(launched_.get(), 0, key)); }

std::unique_ptr<RankSet> MpiRankSet::split(int color) {
  return std::make_unique<MpiRankSet>(part_of(control_.comm(), color, control_.rank()));
}

std::unique_ptr<Communicator> MpiRankSet::make_communicator(const char* name, int color,
                                                            std::vector<LinkClass> links,
                                                            const GroupOptions& options,
                                                            std::size_t lanes) {
  CommHandle handle = part_of(control_.comm(), color, control_.rank());
  if (options.transport == Transport::nccl) {
    int rank = 0;
    check(MPI_Comm_rank(handle.get(), &rank));
    return make_nccl_communicator(
        {name, rank, std::move(links)}, options.device,
        {.lanes = lanes, .copy_engines = options.copy_engines}, [&](std::span<std::byte> bytes) {
          check(MPI_Bcast(bytes.data(), static_cast<int>(bytes.size()), MPI_BYTE, 0, handle.get()));
        });
  }
  auto over_mpi = std::make_unique<MpiCommunicator>(name, std::move(handle), std::move(links),
                                                    options.max_message_bytes);
  if (options.device.backend == Backend::host) return over_mpi;
  return std::make_unique<StagedCommunicator>(std::move(over_mpi), options.device);
}

}  // namespace zeropp::comm
