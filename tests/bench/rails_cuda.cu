// Rates of the ranks of a node and of rails over NCCL, all at once and in both directions:
//   mpirun -n N bench_rails_cuda NODE_SIZE [OUT.json]
// Every rank sends a message of so many bytes to each other rank of its group and receives one. A
// sample is the time of the slowest rank, of kSamples; the rate counts the bytes that a rank sends.
// Rails are measured with 1 to 8 lanes (lib/comm/lanes.hpp). The rates show the best
// zeropp.rail_lanes on a network, and the least time of a step whose bytes across nodes are known.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "lib/comm/world.hpp"
#include "lib/device/buffer.hpp"
#include "tests/bench/bench.hpp"
#include "tests/support/host_rank.hpp"

namespace zeropp {
namespace {

constexpr int kWarmUps = 2;
constexpr std::size_t kSamples = 9;
constexpr std::size_t kLongest = std::size_t{64} << 20U;

struct Bench {
  comm::World& world;
  const Device& device;
  Stream stream = device.make_stream("bench", StreamPriority::normal);
  nlohmann::json rows = nlohmann::json::array();

  double sample(comm::Communicator& group, const Buffer& out, const Buffer& in, std::size_t bytes) {
    std::vector<comm::Send> sends;
    std::vector<comm::Receive> receives;
    for (int peer = 0; peer < group.size(); ++peer) {
      if (peer == group.rank()) continue;
      sends.push_back({out.data(), bytes, peer});
      receives.push_back({in.data() + static_cast<std::size_t>(peer) * bytes, bytes, peer});
    }
    world.control().barrier();
    const auto begin = std::chrono::steady_clock::now();
    comm::Bytes sent;
    group.exchange(sends, receives, stream.handle(), sent)->wait(stream.handle());
    stream.synchronize();
    double seconds[] = {
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count()};
    world.control().all_reduce_max(std::span<double>(seconds));
    return seconds[0];
  }

  void measure(comm::Communicator& group, std::size_t lanes) {
    const auto peers = static_cast<std::size_t>(group.size()) - 1;
    if (peers == 0) return;
    const Buffer out = Buffer::zeros(kLongest / sizeof(float), Dtype::fp32, device.memory);
    const Buffer in((peers + 1) * kLongest, device.memory);
    for (std::size_t bytes = std::size_t{1} << 18U; bytes <= kLongest; bytes *= 4) {
      for (int i = 0; i < kWarmUps; ++i) (void)sample(group, out, in, bytes);
      std::vector<double> times;
      for (std::size_t i = 0; i < kSamples; ++i) times.push_back(sample(group, out, in, bytes));
      std::ranges::sort(times);
      const double rate = static_cast<double>(peers * bytes) / times[kSamples / 2];
      rows.push_back({{"group", group.name()},
                      {"lanes", lanes},
                      {"peers", peers},
                      {"bytes_a_peer", bytes},
                      {"seconds", times},
                      {"bytes_per_second", rate}});
      if (world.control().rank() != 0) continue;
      std::printf(
          "%-6s %zu lanes  %9zu bytes to each of %zu  %9.3f ms (%.3f to %.3f)  %7.2f GB/s\n",
          group.name().c_str(), lanes, bytes, peers, 1e3 * times[kSamples / 2], 1e3 * times.front(),
          1e3 * times.back(), 1e-9 * rate);
    }
  }
};

void run(comm::World& world, int node_size, const char* file) {
  world.set_topology(node_size);
  const Device device = Device::cuda(test::host_rank());
  Bench rails{world, device};
  for (const std::size_t lanes : {1, 2, 4, 8}) {
    const comm::Groups groups = world.make_groups(
        {.device = device, .transport = comm::Transport::nccl, .rail_lanes = lanes});
    if (lanes == 1) rails.measure(*groups.node, 1);
    rails.measure(*groups.rail, lanes);
  }
  bench::write(world, file, {{"node_size", node_size}, {"rows", rails.rows}});
}

}  // namespace
}  // namespace zeropp

int main(int argc, char** argv) {
  zeropp::comm::World world(argc, argv);
  if (argc < 2) {
    std::fprintf(stderr, "usage: mpirun -n N bench_rails_cuda NODE_SIZE [OUT.json]\n");
    return 2;
  }
  return zeropp::bench::guarded("bench_rails_cuda", [&] {
    zeropp::run(world, std::stoi(argv[1]), argc > 2 ? argv[2] : nullptr);
  });
}
