#include "lib/app/placement.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <map>
#include <set>
#include <string_view>

#include "lib/base/host.hpp"
#include "lib/device/runtime.hpp"

namespace zeropp::app {

using nlohmann::json;

namespace {

json to_json(const NearNic& near) {
  const Nic& nic = near.nic;
  return {{"name", nic.name},        {"rdma", nic.rdma},   {"pci", nic.pci},
          {"numa", nic.numa},        {"state", nic.state}, {"gigabits", nic.gigabits},
          {"layer", nic.link_layer}, {"path", near.path}};
}

NearNic nic_of(const json& j) {
  return {{j["name"], j["rdma"], j["pci"], j["numa"], j["state"], j["gigabits"], j["layer"]},
          j["path"]};
}

std::string to_text(const RankPlace& place) {
  json nics = json::array();
  for (const NearNic& near : place.nics) nics.push_back(to_json(near));
  return json{{"host", place.host},
              {"gpu", place.gpu},
              {"uuid", place.gpu_uuid},
              {"pci", place.gpu_pci},
              {"numa", place.gpu_numa},
              {"visible", place.visible},
              {"host_gpus", place.host_gpus},
              {"set", place.visible_devices.has_value()},
              {"devices", place.visible_devices.value_or("")},
              {"cpus", place.cpus},
              {"cpu_nodes", place.cpu_nodes},
              {"nics", std::move(nics)}}
      .dump(-1, ' ', false, json::error_handler_t::replace);
}

RankPlace place_of(const json& j) {
  RankPlace place{.host = j["host"],
                  .gpu = j["gpu"],
                  .gpu_uuid = j["uuid"],
                  .gpu_pci = j["pci"],
                  .gpu_numa = j["numa"],
                  .visible = j["visible"],
                  .host_gpus = j["host_gpus"],
                  .visible_devices = std::nullopt,
                  .cpus = j["cpus"],
                  .cpu_nodes = j["cpu_nodes"],
                  .nics = {}};
  if (j["set"]) place.visible_devices = j["devices"].get<std::string>();
  for (const json& nic : j["nics"]) place.nics.push_back(nic_of(nic));
  return place;
}

std::string devices_text(const RankPlace& place) {
  return place.visible_devices ? fmt::format("\"{}\"", *place.visible_devices)
                               : std::string("not set");
}

/// The ranks of one machine, in order.
struct Host {
  std::string name;
  std::vector<int> ranks;
  std::vector<const RankPlace*> places;
};

std::vector<Host> hosts_of(const std::vector<RankPlace>& ranks) {
  std::vector<Host> hosts;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    auto host = std::ranges::find(hosts, ranks[rank].host, &Host::name);
    if (host == hosts.end()) host = hosts.insert(hosts.end(), Host{ranks[rank].host, {}, {}});
    host->ranks.push_back(static_cast<int>(rank));
    host->places.push_back(&ranks[rank]);
  }
  return hosts;
}

std::size_t processors_of(const Host& host) {
  std::set<int> all;
  for (const RankPlace* place : host.places) all.insert(place->cpus.begin(), place->cpus.end());
  return all.size();
}

/// Whether a machine has more ranks than processors. False where the kernel does not tell the
/// processors.
bool shares_processors(const Host& host) {
  const std::size_t processors = processors_of(host);
  return processors > 0 && host.ranks.size() > processors;
}

using Lines = std::vector<std::string>;

void find_shared_processors(const Host& host, Lines& lines) {
  if (!shares_processors(host)) return;
  lines.push_back(
      fmt::format("{} ranks on {} share {} processors, and messages wait for a rank's "
                  "turn: start fewer ranks, or bind them to more",
                  host.ranks.size(), host.name, processors_of(host)));
}

void find_shared_gpus(const Host& host, Lines& lines) {
  std::map<std::string, std::vector<int>> users;
  for (std::size_t i = 0; i < host.ranks.size(); ++i) {
    if (host.places[i]->gpu >= 0) users[host.places[i]->gpu_uuid].push_back(host.ranks[i]);
  }
  for (const auto& [uuid, ranks] : users) {
    if (ranks.size() < 2) continue;
    lines.push_back(fmt::format("ranks {} on {} use one GPU, {}: start one rank a GPU",
                                fmt::join(ranks, ", "), host.name, uuid));
  }
}

void find_hidden_gpus(const Host& host, Lines& lines) {
  std::set<std::string> seen;
  for (const RankPlace* place : host.places) {
    seen.insert(place->visible.begin(), place->visible.end());
  }
  const std::size_t there = std::max(seen.size(), host.places.front()->host_gpus);
  if (there > 0 && seen.size() < host.ranks.size()) {
    lines.push_back(fmt::format(
        "{} ranks on {} see {} GPU(s) together, of {} on its PCI buses: start as many ranks as "
        "GPUs (--ntasks-per-node and --gpus-per-node equal)",
        host.ranks.size(), host.name, seen.size(), there));
  }
  for (std::size_t i = 0; i < host.ranks.size(); ++i) {
    const RankPlace& place = *host.places[i];
    if (place.host_gpus == 0 || place.visible.size() >= place.host_gpus) continue;
    if (place.visible.empty()) {
      lines.push_back(fmt::format(
          "rank {} on {} sees none of its {} GPUs (CUDA_VISIBLE_DEVICES {}): check the driver, "
          "the container and that variable",
          host.ranks[i], host.name, place.host_gpus, devices_text(place)));
    } else if (place.visible_devices) {
      lines.push_back(fmt::format(
          "rank {} on {} sees {} of its {} GPUs: CUDA_VISIBLE_DEVICES is {}; NCCL may "
          "lose paths inside the node (--gpu-bind=none)",
          host.ranks[i], host.name, place.visible.size(), place.host_gpus, devices_text(place)));
    }
  }
}

void find_different_views(const Host& host, Lines& lines) {
  const RankPlace& first = *host.places.front();
  for (std::size_t i = 1; i < host.ranks.size(); ++i) {
    const RankPlace& place = *host.places[i];
    if (place.visible == first.visible && place.visible_devices == first.visible_devices) continue;
    lines.push_back(fmt::format(
        "ranks {} and {} on {} see different GPUs: CUDA_VISIBLE_DEVICES is {} and {}; give all "
        "GPUs of the node to all its ranks (--gpus-per-node, --gpu-bind=none)",
        host.ranks.front(), host.ranks[i], host.name, devices_text(first), devices_text(place)));
    return;
  }
}

void find_far_processors(const Host& host, Lines& lines) {
  for (std::size_t i = 0; i < host.ranks.size(); ++i) {
    const RankPlace& place = *host.places[i];
    if (place.gpu < 0 || place.gpu_numa < 0 || place.cpu_nodes.empty()) continue;
    if (std::ranges::find(place.cpu_nodes, place.gpu_numa) != place.cpu_nodes.end()) continue;
    lines.push_back(fmt::format(
        "rank {} on {} runs on processors {} of NUMA node {}, its GPU {} is at node {}: bind it "
        "there (mpirun --map-by ppr:N:numa, srun --cpu-bind)",
        host.ranks[i], host.name, cpu_list(place.cpus), fmt::join(place.cpu_nodes, ","),
        place.gpu_pci, place.gpu_numa));
  }
}

void find_idle_adapters(const Host& host, Lines& lines) {
  for (const NearNic& near : host.places.front()->nics) {
    const Nic& nic = near.nic;
    if (!nic.rdma || nic.state == kActive) continue;
    lines.push_back(fmt::format("adapter {} of {} is {}: it carries nothing", nic.name, host.name,
                                nic.state.empty() ? "without a port" : nic.state));
  }
}

constexpr std::string_view kByDistance[] = {"PIX", "PXB", "PHB", "NODE", "SYS"};

}  // namespace

std::string RankPlace::nearest_nics() const {
  const bool adapters = std::ranges::any_of(nics, [](const NearNic& n) { return n.nic.rdma; });
  std::vector<std::string> names;
  const auto collect = [&](auto&& is_near, bool with_path) {
    for (const NearNic& near : nics) {
      if (near.nic.rdma != adapters || !is_near(near)) continue;
      names.push_back(with_path ? fmt::format("{} ({})", near.nic.name, near.path) : near.nic.name);
    }
  };
  if (gpu >= 0) {
    for (const std::string_view path : kByDistance) {
      collect([&](const NearNic& near) { return near.path == path; }, true);
      if (!names.empty()) break;
    }
  } else {
    collect(
        [&](const NearNic& near) {
          return std::ranges::find(cpu_nodes, near.nic.numa) != cpu_nodes.end();
        },
        false);
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

RankPlace find_place(int gpu, const std::filesystem::path& root) {
  const Sysfs sysfs(root);
  RankPlace place;
  place.host = host_name();
  place.gpu = gpu;
  const auto visible = visible_gpus();
  for (const GpuInfo& info : visible) place.visible.push_back(info.uuid);
  if (gpu >= 0) {
    const GpuInfo& own = visible.at(static_cast<std::size_t>(gpu));
    place.gpu_uuid = own.uuid;
    place.gpu_pci = own.pci;
    place.gpu_numa = sysfs.numa_of_pci(own.pci);
  }
  place.host_gpus = sysfs.nvidia_gpus().size();
  if (const char* const devices = std::getenv("CUDA_VISIBLE_DEVICES")) {
    place.visible_devices = devices;
  }
  place.cpus = allowed_cpus();
  place.cpu_nodes = sysfs.nodes_of(place.cpus);
  for (Nic& nic : sysfs.nics()) {
    const std::string path = gpu < 0 ? "" : sysfs.path_between(place.gpu_pci, nic.pci);
    place.nics.push_back({std::move(nic), path});
  }
  return place;
}

std::vector<RankPlace> gather_places(const app::Context& context, const RankPlace& own) {
  std::vector<RankPlace> places;
  for (const std::string& text : context.control().gather(to_text(own))) {
    places.push_back(place_of(json::parse(text)));
  }
  return places;
}

bool share_processors(const std::vector<RankPlace>& ranks) {
  return std::ranges::any_of(hosts_of(ranks), shares_processors);
}

std::vector<std::string> placement_mistakes(const std::vector<RankPlace>& ranks, bool on_gpus) {
  Lines lines;
  for (const Host& host : hosts_of(ranks)) {
    if (on_gpus) {
      find_shared_gpus(host, lines);
      find_hidden_gpus(host, lines);
      find_different_views(host, lines);
    }
    find_shared_processors(host, lines);
    find_far_processors(host, lines);
    find_idle_adapters(host, lines);
  }
  return lines;
}

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
