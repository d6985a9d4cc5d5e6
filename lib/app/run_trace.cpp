#include "lib/app/run_trace.hpp"

#include <unistd.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "lib/base/host.hpp"
#include "lib/device/runtime.hpp"

namespace zeropp::app {

namespace {

using nlohmann::json;

/// Facts that only the rank itself knows. `gpu_index`: -1 on the host back end.
json own_facts(int gpu_index) {
  const GpuInfo gpu =
      gpu_index < 0 ? GpuInfo{} : visible_gpus().at(static_cast<std::size_t>(gpu_index));
  return {{"host", host_name()},
          {"pid", ::getpid()},
          {"gpu", gpu.name},
          {"uuid", gpu.uuid},
          {"pci", gpu.pci}};
}

trace::TraceData head_of(const Call& call, std::string_view backend, std::string_view transport) {
  trace::TraceData data;
  data.app = call.name();
  data.provenance = call.provenance();
  data.config_json = call.config_json();
  data.backend = backend;
  data.transport = transport;
  return data;
}

}  // namespace

trace::TraceData run_trace(const Context& context, Backend backend, comm::Transport transport) {
  const comm::Topology& topology = context.topology();
  trace::TraceData data = head_of(context, enum_name(backend), enum_name(transport));
  data.world_size = static_cast<std::uint64_t>(topology.world_size);
  data.node_count = static_cast<std::uint64_t>(topology.node_count);
  data.ranks_per_node = static_cast<std::uint64_t>(topology.ranks_per_node);
  data.emulated = topology.emulated;

  const auto own = static_cast<std::size_t>(context.control().rank());
  const json facts = own_facts(backend == Backend::cuda ? context.gpus.index[own] : -1);
  for (const std::string& text : context.control().gather(facts.dump())) {
    const json rank = json::parse(text);
    const comm::LocalRank& local = context.world().local_ranks()[data.ranks.size()];
    data.ranks.push_back({rank["host"], static_cast<std::uint64_t>(local.node),
                          static_cast<std::uint64_t>(local.local), rank["pid"], rank["gpu"],
                          rank["uuid"], rank["pci"]});
  }
  return data;
}

trace::TraceData run_trace(const Call& call) {
  trace::TraceData data = head_of(call, "host", "none");
  trace::RankRow own;
  own.host = host_name();
  own.pid = static_cast<std::uint64_t>(::getpid());
  data.ranks.push_back(std::move(own));
  return data;
}

}  // namespace zeropp::app
