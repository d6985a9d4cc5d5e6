// Placement of each rank on its machine: its GPU, processors, NUMA nodes and network interfaces,
// and what is wrong about it; for people the rows of a table, for programs a JSON array.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "lib/app/app.hpp"
#include "lib/app/sysfs.hpp"
#include "lib/comm/topology.hpp"

namespace zeropp::app {

/// A network interface as a rank's GPU sees it.
struct NearNic {
  Nic nic;
  std::string path;  ///< from the GPU, as Sysfs::path_between(); "" without a GPU
};

struct RankPlace {
  std::string host;
  int gpu = -1;  ///< that it takes, of those that it sees; -1: none
  std::string gpu_uuid;
  std::string gpu_pci;
  int gpu_numa = -1;
  std::vector<std::string> visible;            ///< UUIDs of the GPUs that it sees
  std::size_t host_gpus = 0;                   ///< NVIDIA GPUs on the machine's PCI buses
  std::optional<std::string> visible_devices;  ///< CUDA_VISIBLE_DEVICES, where it is set
  std::vector<int> cpus;                       ///< that it may run on
  std::vector<int> cpu_nodes;                  ///< their NUMA nodes
  std::vector<NearNic> nics;                   ///< of its machine

  /// Names of the interfaces that no other is nearer to the GPU than; without a GPU those on the
  /// NUMA nodes of its processors. Adapters where there are any. "mlx5_0 (PIX), mlx5_1 (PIX)"
  [[nodiscard]] std::string nearest_nics() const;
};

/// Finds what one rank sees. `gpu`: index of visible_gpus(), -1 for none; `sysfs`: see Sysfs.
RankPlace find_place(int gpu, const std::filesystem::path& sysfs);

/// Gathers every rank's place on rank 0; empty elsewhere. Collective.
std::vector<RankPlace> gather_places(const app::Context& context, const RankPlace& own);

/// Whether a machine has more ranks than processors for them: then a message may wait until its
/// receiver gets a processor.
bool share_processors(const std::vector<RankPlace>& ranks);

/// Mistakes of a placement, a line for each thing that is wrong: what, where, remedy. `on_gpus`:
/// the run uses them; which GPUs the ranks of one on the host see is no mistake. A pure function.
std::vector<std::string> placement_mistakes(const std::vector<RankPlace>& ranks, bool on_gpus);

/// A cell of a table: "-" instead of an empty text or a negative number, which mean that there is
/// none.
std::string or_dash(const std::string& text);
std::string or_dash(int number);

/// Names of the columns of placement_rows().
std::vector<std::string> placement_columns();

/// One row per rank: rank, node, local rank, host, GPU with its PCI address and NUMA node, how many
/// of the machine's GPUs it sees, its processors with their NUMA nodes, the nearest interfaces. "-"
/// stands for a value that is not there. `nodes`: of as many ranks.
std::vector<std::vector<std::string>> placement_rows(const std::vector<RankPlace>& ranks,
                                                     const std::vector<comm::LocalRank>& nodes);

/// One object per rank, with all interfaces of its machine; docs/operators/fabric.md has the keys.
nlohmann::json placement_json(const std::vector<RankPlace>& ranks);

}  // namespace zeropp::app
