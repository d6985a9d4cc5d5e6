#include "lib/app/gpus.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "lib/app/app.hpp"
#include "lib/base/host.hpp"
#include "lib/comm/nccl.hpp"

namespace zeropp::app {

GpuPlacement place_on_gpus(const std::vector<VisibleGpus>& by_rank) {
  GpuPlacement placement;
  std::map<std::string, std::size_t> ranks_on;
  std::set<std::string> taken;
  std::size_t with_gpu = 0;
  std::string without;  // the first host with a rank that sees none
  std::string shared;   // the first host whose ranks share a GPU
  placement.rdma = std::ranges::all_of(by_rank, &VisibleGpus::rdma);
  placement.copy_engines = std::ranges::all_of(by_rank, &VisibleGpus::copy_engines);
  for (const VisibleGpus& rank : by_rank) {
    const std::size_t on_host = ranks_on[rank.host]++;
    if (rank.uuids.empty()) {
      placement.index.push_back(-1);
      if (without.empty()) without = rank.host;
      continue;
    }
    ++with_gpu;
    const std::size_t index = on_host % rank.uuids.size();
    placement.index.push_back(static_cast<int>(index));
    if (!taken.insert(rank.uuids[index]).second && shared.empty()) shared = rank.host;
  }
  placement.every_rank = with_gpu == by_rank.size();
  placement.own = placement.every_rank && shared.empty();
  if (!placement.every_rank) {
    placement.problem = with_gpu == 0 ? no_gpu_reason()
                                      : fmt::format(
                                            "{} of {} ranks see no GPU, the first on {}: start as "
                                            "many ranks per node as it has GPUs (--gpus-per-node, "
                                            "--gpu-bind=none), or use --backend host",
                                            by_rank.size() - with_gpu, by_rank.size(), without);
    return placement;
  }
  for (const VisibleGpus& rank : by_rank) {
    if (placement.own && rank.uuids.size() == 1 && ranks_on[rank.host] > 1) {
      placement.warning = fmt::format(
          "each of the {} ranks on {} sees one GPU only: NCCL may lose NVLink; give all GPUs of "
          "the node to all its ranks (Slurm: --gpus-per-node and --gpu-bind=none instead of "
          "--gpus-per-task)",
          ranks_on[rank.host], rank.host);
      break;
    }
    if (rank.host != shared) continue;
    placement.problem = fmt::format(
        "{} ranks on {} share {} visible GPU(s): start one rank a GPU (mpirun -n, "
        "--ntasks-per-node and --gpus-per-node equal, not --gpus-per-task), or let them share "
        "with --transport mpi, which is slow, or use --backend host",
        ranks_on[shared], shared, rank.uuids.size());
    break;
  }
  return placement;
}

GpuPlacement find_gpus(comm::World& world) {
  using nlohmann::json;
  json own{{"host", host_name()},
           {"uuids", json::array()},
           {"rdma", comm::nccl_can_take_rdma()},
           {"copy_engines", comm::nccl_can_take_copy_engines()}};
  for (const GpuInfo& gpu : visible_gpus()) own["uuids"].push_back(gpu.uuid);
  json all = json::array();
  for (const std::string& text : world.control().gather(own.dump())) {
    all.push_back(json::parse(text));
  }
  std::vector<VisibleGpus> by_rank;
  for (const json& rank : json::parse(world.control().broadcast(all.dump()))) {
    by_rank.push_back({rank["host"], rank["uuids"], rank["rdma"], rank["copy_engines"]});
  }
  return place_on_gpus(by_rank);
}

Device Context::own_device(Backend backend) const {
  Device device = Device::host();
  agree_on([&] {
    const auto rank = static_cast<std::size_t>(control().rank());
    if (backend == Backend::cuda) device = Device::cuda(gpus.index[rank]);
  });
  return device;
}

}  // namespace zeropp::app
