#include "lib/c/groups.hpp"

#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <utility>

#include "lib/base/error.hpp"
#include "lib/c/callback_communicator.hpp"
#include "lib/comm/nccl.hpp"
#include "lib/device/runtime.hpp"

namespace zeropp::c {

namespace {

/// The ranks with the color of the own one.
template <class ColorOf>
Members members_of(const char* name, const comm::Topology& topology, int own, ColorOf color_of) {
  Members members{.member = {.name = name, .rank = 0, .links = {}}, .ranks = {}};
  for (int rank = 0; rank < topology.world_size; ++rank) {
    if (color_of(rank) != color_of(own)) continue;
    if (rank == own) members.member.rank = static_cast<int>(members.ranks.size());
    members.ranks.push_back(rank);
    members.member.links.push_back(rank == own ? comm::LinkClass::self
                                   : topology.node_of(rank) == topology.node_of(own)
                                       ? comm::LinkClass::intra_node
                                       : comm::LinkClass::inter_node);
  }
  return members;
}

/// Routes of the groups of a communicator.
struct Routes {
  std::size_t rail_lanes = 1;
  bool copy_engines = false;
};

/// Routes that were left to the library (0 lanes, engines of -1), chosen as the programs do
/// (lib/config/algorithm_choice.cpp), by what every rank can take. Collective.
Routes routes_of(const zpp_comm_options& options, CallbackControl& control) {
  std::array<double, 2> lacking{comm::nccl_can_take_rdma() ? 0.0 : 1.0,
                                comm::nccl_can_take_copy_engines() ? 0.0 : 1.0};
  control.all_reduce_max(lacking);
  const bool rdma = lacking[0] == 0;
  const bool engines = lacking[1] == 0 && options.node_size > 1;
  const bool several_nodes = options.node_size < options.size;
  if (options.copy_engines == 1 && !engines) {
    throw Error(ExitCode::environment,
                "zpp_comm_create: copy engines need nodes of several ranks, NCCL 2.28.3 or later "
                "with memory handles (NCCL_CUMEM_ENABLE) and windows (NCCL_WIN_ENABLE), and NVLink "
                "between the GPUs of a node, of which every rank sees all: give -1 or 0");
  }
  Routes routes{.rail_lanes = 1, .copy_engines = engines && options.copy_engines != 0};
  if (options.rail_lanes > 0) {
    routes.rail_lanes = static_cast<std::size_t>(options.rail_lanes);
  } else if (several_nodes && !rdma) {
    routes.rail_lanes = options.node_size == 1 ? 8 : 4;
  }
  return routes;
}

/// Makes groups of a communicator, one after the other, on all ranks in the same order.
class GroupMaker {
 public:
  GroupMaker(const zpp_comm_options& options, const zpp_callbacks& callbacks,
             CallbackControl& control, const Device& device, const comm::Topology& topology)
      : options_(options),
        callbacks_(callbacks),
        control_(control),
        device_(device),
        topology_(topology),
        routes_(options.transport == ZPP_NCCL ? routes_of(options, control) : Routes{}) {}

  [[nodiscard]] const Routes& routes() const { return routes_; }

  /// The ranks with the color of this one.
  template <class ColorOf>
  [[nodiscard]] std::unique_ptr<comm::Communicator> make(const char* name, ColorOf color_of,
                                                         std::size_t lanes) const {
    Members members = members_of(name, topology_, options_.rank, color_of);
    if (options_.transport == ZPP_CALLBACKS) {
      return std::make_unique<CallbackCommunicator>(std::move(members), callbacks_, device_);
    }
    const auto first = static_cast<std::size_t>(members.ranks.front());
    // The all-gather is of all ranks: those of other groups share their bytes in the same call.
    const auto from_first_rank = [&](std::span<std::byte> bytes) {
      const auto texts = control_.all_gather_texts(
          std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
      std::ranges::copy(std::as_bytes(std::span(texts[first])), bytes.begin());
    };
    return comm::make_nccl_communicator(std::move(members.member), device_,
                                        {.lanes = lanes, .copy_engines = routes_.copy_engines},
                                        from_first_rank);
  }

 private:
  const zpp_comm_options& options_;
  const zpp_callbacks& callbacks_;
  CallbackControl& control_;
  const Device& device_;
  const comm::Topology& topology_;
  Routes routes_;
};

}  // namespace

Device device_of(zpp_device device) {
  if (device == ZPP_HOST) return Device::host();
  return Device::cuda(current_gpu());
}

comm::Groups make_groups(const zpp_comm_options& options, const zpp_callbacks& callbacks,
                         CallbackControl& control, const Device& device) {
  comm::Groups groups;
  const comm::Topology topology{.world_size = options.size,
                                .node_count = options.size / options.node_size,
                                .ranks_per_node = options.node_size};
  const GroupMaker maker(options, callbacks, control, device, topology);
  const std::size_t lanes = maker.routes().rail_lanes;
  groups.topology = topology;
  groups.memory = device.memory;
  groups.waits_on_stream = device.backend == Backend::cuda;
  groups.copy_engines = maker.routes().copy_engines;
  // A world whose nodes have one rank each is a rail.
  const bool is_rail = topology.node_count > 1 && topology.ranks_per_node == 1;
  groups.world = maker.make(
      "world", [](int) { return 0; }, is_rail ? lanes : 1);
  groups.node = maker.make(
      "node", [&](int rank) { return topology.node_of(rank); }, 1);
  groups.rail = maker.make(
      "rail", [&](int rank) { return topology.local_of(rank); }, lanes);
  return groups;
}

}  // namespace zeropp::c
