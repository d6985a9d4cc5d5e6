#include "lib/app/sysfs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <string_view>
#include <system_error>

#include "lib/base/text.hpp"

namespace zeropp::app {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kNvidia = "0x10de";
constexpr std::string_view kDisplayClass = "0x03";

/// The first line; empty where it cannot be read.
std::string read_line(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

/// The number that `text` begins with.
template <class Number>
Number number_in(std::string_view text, Number otherwise) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end != text.data() ? value : otherwise;
}

/// Paths of what lies in a folder, in order of their names; none where there is no folder.
std::vector<fs::path> entries_of(const fs::path& folder) {
  std::vector<fs::path> found;
  std::error_code absent;
  for (const auto& entry : fs::directory_iterator(folder, absent)) found.push_back(entry.path());
  std::ranges::sort(found);
  return found;
}

/// Whether `text` is DOMAIN:BUS:DEVICE.FUNCTION, in lower-case hexadecimal, the domain in 4 to 8
/// digits.
bool is_pci_address(std::string text) {
  const std::size_t domain = text.find(':');
  if (domain < 4 || domain > 8 || text.back() > '7') return false;
  for (char& c : text) {
    if ((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f')) c = '0';
  }
  return text == std::string(domain, '0') + ":00:00.0";
}

}  // namespace

std::vector<int> parse_cpu_list(const std::string& text) {
  std::vector<int> cpus;
  const char* place = text.data();
  const char* const end = place + text.size();
  for (;;) {
    int first = 0;
    auto read = std::from_chars(place, end, first);
    if (read.ec != std::errc()) return cpus;
    int last = first;
    if (read.ptr != end && *read.ptr == '-') {
      read = std::from_chars(read.ptr + 1, end, last);
      if (read.ec != std::errc()) return cpus;
    }
    for (int cpu = first; cpu <= last; ++cpu) cpus.push_back(cpu);
    if (read.ptr == end || *read.ptr != ',') return cpus;
    place = read.ptr + 1;
  }
}

std::string cpu_list(const std::vector<int>& cpus) {
  std::string text;
  for (std::size_t begin = 0; begin < cpus.size();) {
    std::size_t end = begin;
    while (end + 1 < cpus.size() && cpus[end + 1] == cpus[end] + 1) ++end;
    if (!text.empty()) text += ',';
    text += end == begin ? fmt::format("{}", cpus[begin])
                         : fmt::format("{}-{}", cpus[begin], cpus[end]);
    begin = end + 1;
  }
  return text;
}

std::map<int, std::vector<int>> Sysfs::numa_nodes() const {
  std::map<int, std::vector<int>> nodes;
  for (const fs::path& folder : entries_of(root_ / "devices/system/node")) {
    const std::string name = folder.filename();
    if (!name.starts_with("node")) continue;
    const int node = number_in(std::string_view(name).substr(4), -1);
    if (node >= 0) nodes[node] = parse_cpu_list(read_line(folder / "cpulist"));
  }
  return nodes;
}

std::vector<int> Sysfs::nodes_of(const std::vector<int>& cpus) const {
  std::vector<int> found;
  for (const auto& [node, own] : numa_nodes()) {
    const auto is_own = [&](int cpu) { return std::ranges::find(own, cpu) != own.end(); };
    if (std::ranges::any_of(cpus, is_own)) found.push_back(node);
  }
  return found;
}

int Sysfs::numa_of_pci(const std::string& pci) const {
  return pci.empty()
             ? -1
             : number_in(read_line(root_ / "bus/pci/devices" / lower(pci) / "numa_node"), -1);
}

std::vector<std::string> Sysfs::nvidia_gpus() const {
  std::vector<std::string> found;
  for (const fs::path& device : entries_of(root_ / "bus/pci/devices")) {
    if (read_line(device / "vendor") != kNvidia) continue;
    if (read_line(device / "class").starts_with(kDisplayClass)) found.push_back(device.filename());
  }
  return found;
}

std::vector<Nic> Sysfs::nics() const {
  std::vector<Nic> found;
  for (const fs::path& folder : entries_of(root_ / "class/infiniband")) {
    found.push_back(adapter(folder));
  }
  for (const fs::path& folder : entries_of(root_ / "class/net")) {
    std::error_code absent;
    if (fs::exists(folder / "device", absent)) found.push_back(interface(folder));
  }
  return found;
}

Nic Sysfs::adapter(const fs::path& folder) const {
  Nic nic;
  nic.name = folder.filename();
  nic.rdma = true;
  nic.pci = pci_of(folder / "device");
  nic.numa = numa_of_pci(nic.pci);
  for (const fs::path& port : entries_of(folder / "ports")) {
    const std::string state = read_line(port / "state");               // "4: ACTIVE"
    const double gigabits = number_in(read_line(port / "rate"), 0.0);  // "400 Gb/sec (4X NDR)"
    const std::size_t colon = state.find(": ");
    const std::string word = colon == std::string::npos ? state : state.substr(colon + 2);
    if (nic.state.empty() || (word == kActive && nic.state != kActive)) {
      nic.state = word;
      nic.gigabits = gigabits;
      nic.link_layer = read_line(port / "link_layer");
    }
  }
  return nic;
}

Nic Sysfs::interface(const fs::path& folder) const {
  constexpr double kMegabits = 1e-3;
  constexpr int kEthernet = 1;
  constexpr int kInfiniBand = 32;
  Nic nic;
  nic.name = folder.filename();
  nic.pci = pci_of(folder / "device");
  nic.numa = numa_of_pci(nic.pci);
  nic.state = read_line(folder / "operstate");
  nic.gigabits = std::max(0.0, number_in(read_line(folder / "speed"), 0.0) * kMegabits);
  const int type = number_in(read_line(folder / "type"), 0);
  if (type == kEthernet) nic.link_layer = "Ethernet";
  if (type == kInfiniBand) nic.link_layer = "InfiniBand";
  return nic;
}

/// Last PCI address in the device's path: a virtual device lies below its physical one.
std::string Sysfs::pci_of(const fs::path& device) const {
  std::error_code absent;
  std::string found;
  for (const fs::path& part : fs::canonical(device, absent)) {
    if (is_pci_address(part.string())) found = part.string();
  }
  return found;
}

std::vector<std::string> Sysfs::pci_path(const std::string& pci) const {
  std::error_code absent;
  std::vector<std::string> path;
  for (const fs::path& part : fs::canonical(root_ / "bus/pci/devices" / lower(pci), absent)) {
    const std::string name = part.string();
    if (name.starts_with("pci") && path.empty()) path.push_back(name);  // the host bridge
    if (is_pci_address(name)) path.push_back(name);
  }
  return path;
}

std::string Sysfs::path_between(const std::string& pci, const std::string& other) const {
  const auto a = pci_path(pci);
  const auto b = pci_path(other);
  if (pci.empty() || other.empty() || a.empty() || b.empty()) return "";
  std::size_t common = 0;
  while (common < std::min(a.size(), b.size()) && a[common] == b[common]) ++common;
  // A port of the switch and the device lie below what two devices on one switch share.
  constexpr std::size_t kPortAndDevice = 2;
  if (common > 1) {
    return std::max(a.size(), b.size()) - common <= kPortAndDevice ? "PIX" : "PXB";
  }
  if (common == 1) return "PHB";
  const int node = numa_of_pci(pci);
  return node >= 0 && node == numa_of_pci(other) ? "NODE" : "SYS";
}

}  // namespace zeropp::app
