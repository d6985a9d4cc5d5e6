#include "lib/comm/nccl.hpp"

#include <fmt/format.h>
#include <nccl.h>

#include <algorithm>
#include <cstdlib>
#include <span>
#include <utility>
#include <vector>

#include "lib/base/error.hpp"
#include "lib/base/host_name.hpp"
#include "lib/comm/cuda/nccl_communicator.hpp"
#include "lib/comm/mpi_check.hpp"

namespace zeropp::comm {

namespace {

void set_unless_user_did(const char* name, const std::string& value) {
  (void)setenv(name, value.c_str(), /*overwrite=*/0);
}

/// NCCL reads its environment once: what the first call of a process sets stays, because later ones
/// find it set.
void set_environment(const NcclPlace& place) {
  // NVLS multicast needs a fabric manager that not every machine runs.
  set_unless_user_did("NCCL_NVLS_ENABLE", "0");
  if (!place.emulated) return;
  set_unless_user_did("NCCL_HOSTID", fmt::format("zeropp-node-{}-{}", place.node, host_name()));
  if (place.one_host) set_unless_user_did("NCCL_SOCKET_IFNAME", "lo");
}

}  // namespace

std::unique_ptr<Communicator> make_nccl_communicator(std::string name, CommHandle group,
                                                     std::vector<LinkClass> links,
                                                     const Device& device, const NcclPlace& place,
                                                     const NcclRoutes& routes) {
  set_environment(place);
  int rank = 0;
  check(MPI_Comm_rank(group.get(), &rank));
  const bool inside = links.size() > 1 && std::ranges::none_of(links, [](LinkClass link) {
                        return link == LinkClass::inter_node;
                      });
  const bool copies = routes.copy_engines && inside;
  std::vector<ncclUniqueId> ids(routes.lanes + (copies ? 1 : 0));
  if (rank == 0) {
    for (ncclUniqueId& id : ids) {
      const ncclResult_t status = ncclGetUniqueId(&id);
      if (status == ncclSuccess) continue;
      throw Error(ExitCode::environment,
                  fmt::format("NCCL group '{}', creation, rank 0: {}: NCCL_DEBUG=INFO says more",
                              name, ncclGetErrorString(status)));
    }
  }
  check(MPI_Bcast(ids.data(), static_cast<int>(ids.size() * sizeof(ncclUniqueId)), MPI_BYTE, 0,
                  group.get()));
  return std::make_unique<NcclCommunicator>(std::move(name), rank, std::move(links), device,
                                            std::span(ids).first(routes.lanes),
                                            copies ? &ids.back() : nullptr);
}

}  // namespace zeropp::comm
