// ctest: name=app_placement timeout=30 labels=sanitize
// The facts about a machine that are read from a made-up sysfs, and errors in made-up placements.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "lib/app/placement.hpp"
#include "lib/app/sysfs.hpp"
#include "tests/support/temporary_folder.hpp"

namespace zeropp::app {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

namespace fs = std::filesystem;

/// A machine with two NUMA nodes: GPUs 1b and 1d share a switch with the adapter mlx5_0; GPU 3a
/// hangs at the same host bridge; GPU ab, mlx5_1 and eno1 are at the other node.
class MadeUpSysfs : public testing::Test {
 protected:
  MadeUpSysfs() {
    node(0, "0-3,8-11");
    node(1, "4-7,12-15");
    const std::string near = "pci0000:15/0000:15:01.0/0000:16:00.0/";
    device(near + "0000:17:00.0/0000:1b:00.0", 0, "0x10de", "0x030200");
    device(near + "0000:17:01.0/0000:1d:00.0", 0, "0x10de", "0x030200");
    device(near + "0000:17:02.0/0000:1a:00.0", 0, "0x15b3", "0x020700");
    device(near + "0000:17:03.0/0000:20:00.0/0000:21:00.0/0000:22:00.0", 0, "0x15b3", "0x020000");
    device("pci0000:15/0000:15:03.0/0000:3a:00.0", 0, "0x10de", "0x030000");
    device("pci0000:a0/0000:a0:01.0/0000:ab:00.0", 1, "0x10de", "0x030200");
    device("pci0000:b0/0000:b0:01.0/0000:b1:00.0", 1, "0x15b3", "0x020700");
    device("pci0000:b0/0000:b0:02.0/0000:b2:00.0", 1, "0x8086", "0x020000");
    device("pci0000:b0/0000:b0:03.0/0000:b3:00.0", 1, "0x10de", "0x068000");  // an NVSwitch

    const fs::path first = folder("class/infiniband", "mlx5_0", "0000:1a:00.0");
    port(first, "1", "4: ACTIVE", "400 Gb/sec (4X NDR)", "InfiniBand");
    const fs::path second = folder("class/infiniband", "mlx5_1", "0000:b1:00.0");
    port(second, "1", "1: DOWN", "2.5 Gb/sec (1X SDR)", "InfiniBand");
    const fs::path third = folder("class/infiniband", "mlx5_2", "0000:22:00.0");
    port(third, "1", "1: DOWN", "10 Gb/sec", "Ethernet");
    port(third, "2", "4: ACTIVE", "200 Gb/sec (4X HDR)", "Ethernet");
    const fs::path ethernet = folder("class/net", "eno1", "0000:b2:00.0");
    write(ethernet / "operstate", "up\n");
    write(ethernet / "speed", "25000\n");
    write(ethernet / "type", "1\n");
    fs::create_directories(root() / "class/net/lo");  // no device
  }

  [[nodiscard]] const fs::path& root() const { return folder_.path(); }
  [[nodiscard]] Sysfs sysfs() const { return Sysfs(root()); }

  static void write(const fs::path& path, const std::string& text) {
    fs::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  void node(int number, const std::string& cpus) const {
    write(root() / "devices/system/node" / ("node" + std::to_string(number)) / "cpulist",
          cpus + "\n");
  }
  void device(const std::string& path, int numa, const std::string& vendor,
              const std::string& kind) const {
    const fs::path folder = root() / "devices" / path;
    write(folder / "numa_node", std::to_string(numa) + "\n");
    write(folder / "vendor", vendor + "\n");
    write(folder / "class", kind + "\n");
    fs::create_directories(root() / "bus/pci/devices");
    fs::create_symlink(folder, root() / "bus/pci/devices" / folder.filename());
  }
  [[nodiscard]] fs::path folder(const std::string& kind, const std::string& name,
                                const std::string& pci) const {
    fs::path path = root() / kind / name;
    fs::create_directories(path);
    fs::create_symlink(fs::canonical(root() / "bus/pci/devices" / pci), path / "device");
    return path;
  }
  static void port(const fs::path& adapter, const std::string& number, const std::string& state,
                   const std::string& rate, const std::string& layer) {
    const fs::path port = adapter / "ports" / number;
    write(port / "state", state + "\n");
    write(port / "rate", rate + "\n");
    write(port / "link_layer", layer + "\n");
  }

 private:
  test::TemporaryFolder folder_;
};

TEST(CpuList, ReadAndWritten) {
  EXPECT_THAT(parse_cpu_list("0-3,8,10-11"), ElementsAre(0, 1, 2, 3, 8, 10, 11));
  EXPECT_THAT(parse_cpu_list(""), IsEmpty());
  EXPECT_THAT(parse_cpu_list("x"), IsEmpty());
  EXPECT_THAT(parse_cpu_list("1,2-"), ElementsAre(1));
  for (const std::string text : {"", "0", "0-3,8,10-11", "1,3,5-7"}) {
    EXPECT_EQ(cpu_list(parse_cpu_list(text)), text);
  }
}

TEST_F(MadeUpSysfs, NumaNodes) {
  EXPECT_THAT(sysfs().nodes_of({0, 1}), ElementsAre(0));
  EXPECT_THAT(sysfs().nodes_of({11, 12}), ElementsAre(0, 1));
  EXPECT_THAT(sysfs().nodes_of({}), IsEmpty());
  EXPECT_EQ(sysfs().numa_of_pci("0000:AB:00.0"), 1) << "CUDA writes capitals";
  EXPECT_EQ(sysfs().numa_of_pci("0000:ff:00.0"), -1);
  EXPECT_EQ(sysfs().numa_of_pci(""), -1);
}

TEST_F(MadeUpSysfs, GpusAndInterfaces) {
  EXPECT_THAT(sysfs().nvidia_gpus(),
              ElementsAre("0000:1b:00.0", "0000:1d:00.0", "0000:3a:00.0", "0000:ab:00.0"));
  const auto nics = sysfs().nics();
  ASSERT_EQ(nics.size(), 4U);
  EXPECT_EQ(nics[0].name, "mlx5_0");
  EXPECT_TRUE(nics[0].rdma);
  EXPECT_EQ(nics[0].pci, "0000:1a:00.0");
  EXPECT_EQ(nics[0].numa, 0);
  EXPECT_EQ(nics[0].state, "ACTIVE");
  EXPECT_EQ(nics[0].gigabits, 400);
  EXPECT_EQ(nics[0].link_layer, "InfiniBand");
  EXPECT_EQ(nics[1].state, "DOWN");
  EXPECT_EQ(nics[2].state, "ACTIVE") << "of its best port";
  EXPECT_EQ(nics[2].gigabits, 200);
  EXPECT_EQ(nics[3].name, "eno1");
  EXPECT_FALSE(nics[3].rdma);
  EXPECT_EQ(nics[3].state, "up");
  EXPECT_EQ(nics[3].gigabits, 25);
  EXPECT_EQ(nics[3].numa, 1);
}

TEST_F(MadeUpSysfs, Paths) {
  const Sysfs tree = sysfs();
  EXPECT_EQ(tree.path_between("0000:1B:00.0", "0000:1a:00.0"), "PIX");
  EXPECT_EQ(tree.path_between("0000:1b:00.0", "0000:22:00.0"), "PXB");
  EXPECT_EQ(tree.path_between("0000:3a:00.0", "0000:1a:00.0"), "PHB");
  EXPECT_EQ(tree.path_between("0000:ab:00.0", "0000:b1:00.0"), "NODE");
  EXPECT_EQ(tree.path_between("0000:ab:00.0", "0000:1a:00.0"), "SYS");
  EXPECT_EQ(tree.path_between("0000:ab:00.0", ""), "");
  EXPECT_EQ(tree.path_between("0000:ee:00.0", "0000:1a:00.0"), "");
}

TEST_F(MadeUpSysfs, OfAMachineThatTellsNothing) {
  const Sysfs nothing(root() / "none");
  EXPECT_THAT(nothing.nics(), IsEmpty());
  EXPECT_THAT(nothing.nvidia_gpus(), IsEmpty());
  EXPECT_THAT(nothing.nodes_of({0}), IsEmpty());
  EXPECT_EQ(nothing.path_between("0000:1b:00.0", "0000:1a:00.0"), "");
}

TEST_F(MadeUpSysfs, AHostRankSeesTheMachine) {
  const RankPlace place = find_place(-1, root());
  EXPECT_EQ(place.gpu, -1);
  EXPECT_EQ(place.host_gpus, 4U);
  EXPECT_EQ(place.nics.size(), 4U);
  EXPECT_FALSE(place.cpus.empty());
  EXPECT_EQ(place.cpu_nodes, sysfs().nodes_of(place.cpus));
}

/// Rank on a machine with as many GPUs as it sees, at the right place.
RankPlace right(const std::string& host, int gpu, int gpus) {
  RankPlace place;
  place.host = host;
  place.gpu = gpu;
  for (int i = 0; i < gpus; ++i) place.visible.push_back(host + "-" + std::to_string(i));
  place.gpu_uuid = place.visible[static_cast<std::size_t>(gpu)];
  place.gpu_pci = "0000:1b:00.0";
  place.gpu_numa = gpu % 2;
  place.host_gpus = static_cast<std::size_t>(gpus);
  place.cpus = {4 * gpu, 4 * gpu + 1};
  place.cpu_nodes = {gpu % 2};
  return place;
}

TEST(PlacementMistakes, NoneWhereAllIsRight) {
  EXPECT_THAT(placement_mistakes(
                  {right("a", 0, 2), right("a", 1, 2), right("b", 0, 2), right("b", 1, 2)}, true),
              IsEmpty());
  RankPlace unbound = right("a", 0, 2);
  unbound.cpu_nodes = {0, 1};
  EXPECT_THAT(placement_mistakes({unbound, right("a", 1, 2)}, true), IsEmpty());
}

TEST(PlacementMistakes, TwoRanksOnOneGpu) {
  EXPECT_THAT(placement_mistakes({right("a", 0, 3), right("a", 1, 3), right("a", 0, 3)}, true),
              ElementsAre(HasSubstr("ranks 0, 2 on a use one GPU, a-0")));
}

TEST(PlacementMistakes, FewerGpusThanRanks) {
  const auto lines =
      placement_mistakes({right("a", 0, 1), right("b", 0, 1), right("a", 0, 1)}, true);
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_THAT(lines[0], HasSubstr("ranks 0, 2 on a use one GPU"));
  EXPECT_THAT(lines[1], HasSubstr("2 ranks on a see 1 GPU(s) together, of 1"));
}

TEST(PlacementMistakes, BoundAwayFromTheGpu) {
  RankPlace far = right("a", 1, 2);
  far.cpus = {0, 1, 2};
  far.cpu_nodes = {0};
  EXPECT_THAT(placement_mistakes({right("a", 0, 2), far}, true),
              ElementsAre(HasSubstr("rank 1 on a runs on processors 0-2 of NUMA node 0, its GPU "
                                    "0000:1b:00.0 is at node 1")));
}

TEST(PlacementMistakes, MoreRanksThanProcessors) {
  RankPlace host;
  host.host = "a";
  host.cpus = {0, 1};
  EXPECT_THAT(placement_mistakes({host, host}, true), IsEmpty());
  EXPECT_FALSE(share_processors({host, host}));
  EXPECT_THAT(placement_mistakes({host, host, host}, true),
              ElementsAre(HasSubstr("3 ranks on a share 2 processors")));
  EXPECT_TRUE(share_processors({host, host, host}));
}

TEST(PlacementMistakes, VisibleDevices) {
  RankPlace one = right("a", 0, 2);
  RankPlace other = right("a", 1, 2);
  one.visible = {"a-0"};
  one.visible_devices = "0";
  other.visible = {"a-1"};
  other.visible_devices = "1";
  const auto lines = placement_mistakes({one, other}, true);
  ASSERT_EQ(lines.size(), 3U) << testing::PrintToString(lines);
  EXPECT_THAT(lines[0],
              HasSubstr("rank 0 on a sees 1 of its 2 GPUs: CUDA_VISIBLE_DEVICES is \"0\""));
  EXPECT_THAT(lines[1], HasSubstr("rank 1 on a"));
  EXPECT_THAT(lines[2], HasSubstr("ranks 0 and 1 on a see different GPUs: CUDA_VISIBLE_DEVICES is "
                                  "\"0\" and \"1\""));
}

TEST(PlacementMistakes, GpusThatNobodySees) {
  RankPlace blind;
  blind.host = "a";
  blind.host_gpus = 8;
  blind.cpus = {0};
  const auto lines = placement_mistakes({blind}, true);
  ASSERT_EQ(lines.size(), 2U) << testing::PrintToString(lines);
  EXPECT_THAT(lines[0], HasSubstr("1 ranks on a see 0 GPU(s) together, of 8"));
  EXPECT_THAT(lines[1], HasSubstr("sees none of its 8 GPUs (CUDA_VISIBLE_DEVICES not set)"));
  EXPECT_THAT(placement_mistakes({blind}, false), IsEmpty());
}

TEST(PlacementMistakes, ProcessorsThatTheKernelDoesNotTell) {
  RankPlace place;
  place.host = "a";
  EXPECT_THAT(placement_mistakes({place, place}, false), IsEmpty());
  EXPECT_FALSE(share_processors({place, place}));
}

TEST(PlacementMistakes, AnAdapterThatIsDown) {
  RankPlace place = right("a", 0, 1);
  place.nics = {{{"mlx5_0", true, "", 0, "ACTIVE", 400, "InfiniBand"}, "PIX"},
                {{"mlx5_1", true, "", 0, "DOWN", 0, "InfiniBand"}, "SYS"},
                {{"eno1", false, "", 0, "down", 0, "Ethernet"}, "SYS"}};
  EXPECT_THAT(placement_mistakes({place}, true),
              ElementsAre(HasSubstr("adapter mlx5_1 of a is DOWN")));
  EXPECT_EQ(place.nearest_nics(), "mlx5_0 (PIX)");
  place.gpu = -1;
  EXPECT_EQ(place.nearest_nics(), "mlx5_0, mlx5_1");
}

}  // namespace
}  // namespace zeropp::app
