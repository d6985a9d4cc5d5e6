#include "lib/comm/nccl.hpp"

#include <fmt/format.h>
#include <nccl.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <span>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "lib/base/error.hpp"
#include "lib/comm/cuda/nccl_communicator.hpp"

namespace zeropp::comm {

namespace {

bool is_set(const char* name, std::string_view value) {
  const char* const set = std::getenv(name);
  return set != nullptr && set == value;
}

}  // namespace

bool nccl_can_take_rdma() {
  if (is_set("NCCL_NET", "Socket") || is_set("NCCL_IB_DISABLE", "1")) return false;
  std::error_code absent;
  return std::filesystem::directory_iterator("/sys/class/infiniband", absent) !=
         std::filesystem::directory_iterator{};
}

bool nccl_can_take_copy_engines() {
  return nccl_has_copy_engines() && !is_set("NCCL_CUMEM_ENABLE", "0") &&
         !is_set("NCCL_P2P_DISABLE", "1") && !is_set("NCCL_WIN_ENABLE", "0") && nvlink_joins_gpus();
}

std::unique_ptr<Communicator> make_nccl_communicator(Membership member, const Device& device,
                                                     const NcclRoutes& routes,
                                                     const FromFirstRank& from_first_rank) {
  const std::vector<LinkClass>& links = member.links;
  const bool inside = links.size() > 1 && std::ranges::none_of(links, [](LinkClass link) {
                        return link == LinkClass::inter_node;
                      });
  const bool copies = routes.copy_engines && inside;
  std::vector<ncclUniqueId> ids(routes.lanes + (copies ? 1 : 0));
  if (member.rank == 0) {
    for (ncclUniqueId& id : ids) {
      const ncclResult_t status = ncclGetUniqueId(&id);
      if (status == ncclSuccess) continue;
      throw Error(ExitCode::environment,
                  fmt::format("NCCL group '{}', creation, rank 0: {}: NCCL_DEBUG=INFO says more",
                              member.name, ncclGetErrorString(status)));
    }
  }
  from_first_rank(std::as_writable_bytes(std::span(ids)));
  return std::make_unique<NcclCommunicator>(std::move(member), device,
                                            std::span(ids).first(routes.lanes),
                                            copies ? &ids.back() : nullptr);
}

}  // namespace zeropp::comm
