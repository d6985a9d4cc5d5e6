// Facts of a machine that Linux tells in sysfs: NUMA nodes and their processors, PCI devices,
// network interfaces and RDMA adapters. Reads below a root folder ("/sys", or a copy of a part of
// it) and never fails: what is not told there is empty or -1.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace zeropp::app {

/// "0-3,8" -> 0, 1, 2, 3, 8. Stops at what is no such list.
std::vector<int> parse_cpu_list(const std::string& text);
/// The shortest such list: "0-3,8". `cpus` in order.
std::string cpu_list(const std::vector<int>& cpus);

/// State that the kernel tells of an InfiniBand port that carries data.
inline constexpr const char* kActive = "ACTIVE";

/// An interface of the kernel (/sys/class/net) that is a device, or an RDMA adapter
/// (/sys/class/infiniband).
struct Nic {
  std::string name;        ///< "eth0", "mlx5_0"
  bool rdma = false;       ///< an adapter, of InfiniBand or RoCE
  std::string pci;         ///< "0000:1a:00.0"; empty: on no PCI bus
  int numa = -1;           ///< -1: not told, or the machine has one node
  std::string state;       ///< "up"; of an adapter that of its best port: "ACTIVE"
  double gigabits = 0;     ///< a second, of its port or of the best of them; 0: not told
  std::string link_layer;  ///< "Ethernet", "InfiniBand"
};

class Sysfs {
 public:
  explicit Sysfs(std::filesystem::path root) : root_(std::move(root)) {}

  /// Processors by NUMA node.
  [[nodiscard]] std::map<int, std::vector<int>> numa_nodes() const;
  /// NUMA nodes that hold any of `cpus`, in order.
  [[nodiscard]] std::vector<int> nodes_of(const std::vector<int>& cpus) const;
  /// NUMA node of a PCI device; letters of `pci` in any case.
  [[nodiscard]] int numa_of_pci(const std::string& pci) const;
  /// PCI addresses of NVIDIA's display and 3D controllers.
  [[nodiscard]] std::vector<std::string> nvidia_gpus() const;
  /// Network interfaces, adapters first, each kind by name.
  [[nodiscard]] std::vector<Nic> nics() const;
  /// Distance of two PCI devices from each other, in nvidia-smi's words: PIX (one switch), PXB
  /// (several switches), PHB (one host bridge), NODE (one NUMA node), SYS; "" where a place is not
  /// told.
  [[nodiscard]] std::string path_between(const std::string& pci, const std::string& other) const;

 private:
  [[nodiscard]] std::string pci_of(const std::filesystem::path& device) const;
  /// The bridges from the host bridge down to a device, and the device.
  [[nodiscard]] std::vector<std::string> pci_path(const std::string& pci) const;
  [[nodiscard]] Nic adapter(const std::filesystem::path& folder) const;
  [[nodiscard]] Nic interface(const std::filesystem::path& folder) const;

  std::filesystem::path root_;
};

}  // namespace zeropp::app
