#include "lib/app/placement_output.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace zeropp::app {

using nlohmann::json;

std::string or_dash(const std::string& text) { return text.empty() ? "-" : text; }
std::string or_dash(int number) { return number < 0 ? "-" : fmt::format("{}", number); }

std::vector<std::string> placement_columns() {
  return {"rank", "node", "local",   "host",        "GPU",
          "PCI",  "NUMA", "visible", "CPUs (NUMA)", "nearest interfaces"};
}

std::vector<std::vector<std::string>> placement_rows(const std::vector<RankPlace>& ranks,
                                                     const std::vector<comm::LocalRank>& nodes) {
  std::vector<std::vector<std::string>> rows;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    const RankPlace& place = ranks[rank];
    rows.push_back({fmt::format("{}", rank), fmt::format("{}", nodes.at(rank).node),
                    fmt::format("{}", nodes.at(rank).local), place.host, or_dash(place.gpu),
                    or_dash(place.gpu_pci), or_dash(place.gpu_numa),
                    fmt::format("{}/{}", place.visible.size(), place.host_gpus),
                    fmt::format("{} ({})", cpu_list(place.cpus), fmt::join(place.cpu_nodes, ",")),
                    or_dash(place.nearest_nics())});
  }
  return rows;
}

json placement_json(const std::vector<RankPlace>& ranks) {
  json list = json::array();
  for (const RankPlace& place : ranks) {
    json nics = json::array();
    for (const auto& [nic, path] : place.nics) {
      nics.push_back({{"name", nic.name},
                      {"rdma", nic.rdma},
                      {"pci", nic.pci},
                      {"numa", nic.numa},
                      {"state", nic.state},
                      {"gigabits_per_second", nic.gigabits},
                      {"link_layer", nic.link_layer},
                      {"path", path}});
    }
    list.push_back({{"rank", list.size()},
                    {"host", place.host},
                    {"gpu", place.gpu},
                    {"gpu_uuid", place.gpu_uuid},
                    {"gpu_pci", place.gpu_pci},
                    {"gpu_numa", place.gpu_numa},
                    {"visible_gpus", place.visible},
                    {"host_gpus", place.host_gpus},
                    {"cuda_visible_devices",
                     place.visible_devices ? json(*place.visible_devices) : json(nullptr)},
                    {"cpus", cpu_list(place.cpus)},
                    {"cpu_numa_nodes", place.cpu_nodes},
                    {"interfaces", std::move(nics)}});
  }
  return list;
}

}  // namespace zeropp::app
