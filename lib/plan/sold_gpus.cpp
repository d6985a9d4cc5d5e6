#include "lib/plan/sold_gpus.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "lib/base/error.hpp"
#include "lib/base/units.hpp"

namespace zeropp::plan {

namespace {

// Shares of what a data sheet says, from inputs/clusters/h200-dgx.json over the sheet of H200: the
// mean of nine shapes of products, three of attention, a copy, NVLink alone, in all and by copy
// engines. Links between nodes and to the host are as in that file, where they are assumed.
constexpr double kProductForward = 0.73;
constexpr double kProductBackward = 0.65;
constexpr double kMemory = 0.875;
constexpr double kNodeLink = 0.60;
constexpr double kNodeLinkMost = 0.89;
constexpr double kNodeLinkCopies = 0.86;
constexpr double kRails = 0.92;
constexpr double kHostLink = 0.80;
constexpr double kHostMemory = 0.65;
/// The driver keeps a little of the memory.
constexpr double kMemoryLeft = 0.99;

struct AttentionShare {
  std::size_t sequence;
  std::size_t head_size;
  double forward;
  double backward;
};
constexpr AttentionShare kAttention[] = {
    {512, 128, 0.169, 0.129}, {2048, 128, 0.538, 0.406}, {1024, 64, 0.292, 0.229}};

// Values that no data sheet has, as in that file.
constexpr double kStepShare = 0.945;
constexpr double kLayerGap = 240 * kMicro;
constexpr double kNodeLatency = 24 * kMicro;
constexpr double kNodeGpuShare = 0.215;
constexpr double kRailLatency = 20 * kMicro;
constexpr double kRailHopLatency = 5 * kMicro;
constexpr double kRailGpuShare = 0.1;

Gpu gpu_of(const SoldGpu& sold) {
  const double peak = sold.tflops * kTera;
  Gpu gpu;
  gpu.name = sold.sheet;
  gpu.peak = peak;
  gpu.memory = kMemoryLeft * sold.memory_gb * kGibibyte;
  gpu.memory_rate = kMemory * sold.memory_gb_per_s * kGiga;
  gpu.step_share = kStepShare;
  gpu.layer_gap = kLayerGap;
  // One row, which every shape takes.
  gpu.products = {{.rows = 8192,
                   .in = 4096,
                   .out = 16384,
                   .forward = kProductForward * peak,
                   .backward = kProductBackward * peak}};
  for (const AttentionShare& share : kAttention) {
    gpu.attention.push_back({.sequence = share.sequence,
                             .head_size = share.head_size,
                             .forward = share.forward * peak,
                             .backward = share.backward * peak});
  }
  return gpu;
}

}  // namespace

const std::vector<SoldGpu>& sold_gpus() {
  // Hosts: 12 channels of DDR4-2666 (v100), 16 of, DDR4-3200 (a100), DDR5-4800 (l40s, h100, h200),
  // DDR5-5600 (b200). Links to the host: PCIe of 16 lanes, generation 3, 4 or 5.
  static const std::vector<SoldGpu> all{
      {"a100", "A100-SXM4-80GB", 312, 80, 2039, 300, 31.5, 409.6},
      {"a100-40gb", "A100-SXM4-40GB", 312, 40, 1555, 300, 31.5, 409.6},
      {"b200", "B200-SXM-180GB", 2250, 180, 8000, 900, 63, 716.8},
      {"h100", "H100-SXM5-80GB", 989.4, 80, 3350, 450, 63, 614.4},
      {"h200", "H200-SXM5-141GB", 989.4, 141, 4800, 450, 63, 614.4, /*compared=*/true},
      // 48 GB of GDDR6, of which ECC takes a sixteenth; no NVLink, GPUs meet over PCIe.
      {"l40s", "L40S-48GB", 362, 45, 864, 31.5, 31.5, 614.4},
      {"v100", "V100-SXM2-32GB", 125, 32, 900, 150, 15.75, 256, /*compared=*/true},
  };
  return all;
}

std::vector<std::string> sold_gpu_names() {
  std::vector<std::string> names;
  for (const SoldGpu& each : sold_gpus()) names.emplace_back(each.name);
  return names;
}

Cluster sold_cluster(const SoldNodes& sold) {
  const auto found = std::ranges::find(sold_gpus(), sold.gpu, &SoldGpu::name);
  if (found == sold_gpus().end()) {
    throw Error(ExitCode::usage, fmt::format("no rates are known of a GPU \"{}\": choose {}",
                                             sold.gpu, fmt::join(sold_gpu_names(), ", ")));
  }
  const double node_rate = found->node_gb_per_s * kGiga;
  const auto links = static_cast<double>(sold.node_links);
  Cluster cluster;
  const bool one = sold.node_gbit == 0;
  const double gbit = one ? node_rate / kGigabit : sold.node_gbit;
  cluster.name = one ? fmt::format("{} x {} as sold, one node", sold.gpus_per_node, found->sheet)
                     : fmt::format("{} x {} as sold a node, {} x {:g} Gbit/s between nodes",
                                   sold.gpus_per_node, found->sheet, sold.node_links, gbit / links);
  cluster.source =
      std::string(
          "as sold, none of them measured: data sheets times the shares of them that H200 "
          "reach; ") +
      (found->compared ? "expect step times to be off by up to 30 %"
                       : "step times of this GPU were not compared with measured ones");
  cluster.nodes = one ? 1 : 2;
  cluster.gpus_per_node = sold.gpus_per_node;
  cluster.gpu = gpu_of(*found);
  cluster.node_links = {.latency = kNodeLatency,
                        .hop_latency = 0,
                        .rate = kNodeLink * node_rate,
                        .most = kNodeLinkMost * node_rate,
                        .gpu_share = kNodeGpuShare,
                        .copies_rate = kNodeLinkCopies * node_rate,
                        .copies_gpu_share = 0};
  cluster.rails = {.links_per_node = links,
                   .ring_rate = 0,
                   .hop_latency = kRailHopLatency,
                   .lanes = {{.lanes = 1,
                              .latency = kRailLatency,
                              .rate = kRails * gbit * kGigabit / links,
                              .sizes = {}}},
                   .gpu_share = kRailGpuShare,
                   .sold_share = kRails};
  const double host_link = kHostLink * found->host_gb_per_s * kGiga;
  cluster.host = {.link_rate = host_link,
                  .memory_rate = kHostMemory * found->host_memory_gb_per_s * kGiga,
                  .pageable_rate = host_link};
  return cluster;
}

}  // namespace zeropp::plan
