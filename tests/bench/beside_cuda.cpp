// Times of matrix products while weights are gathered inside a node, and of the gathers meanwhile:
// by NCCL's all-gather, by its messages and by copy engines. Then times of gathers and of the
// exchanges of reductions beside each other, by messages and by copy engines:
//   mpirun -n N bench_beside_cuda [OUT.json]
// The product is that of a block 6144 wide on 512 tokens, in bf16, and is repeated. A sample lasts
// as long as some gathers of one size; beside them run as many products as take that long alone.
// Rates count the bytes that a rank sends. The results give node_links.copies_gb_per_s and
// copies_gpu_share of a planned cluster (inputs/clusters/README.md).
#include <algorithm>
#include <array>
#include <cstdio>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "lib/comm/world.hpp"
#include "lib/device/buffer.hpp"
#include "lib/device/compute_device.hpp"
#include "lib/device/runtime.hpp"
#include "lib/device/stream.hpp"
#include "tests/bench/bench.hpp"
#include "tests/support/host_rank.hpp"

namespace zeropp {
namespace {

constexpr std::size_t kSamples = 7;
constexpr std::size_t kLargest = std::size_t{1} << 30U;
constexpr std::size_t kWeights = 4;  ///< matrices in turn: more than the cache holds
constexpr nn::LinearShape kProduct{.rows = 512, .in = 6144, .out = 24576};
constexpr double kShortest = 0.01;  ///< s, of a sample

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

class Products {
 public:
  explicit Products(const ComputeDevice& device) : device_(device) {
    const std::size_t scratch = device.nn->linear_workspace(kProduct, Dtype::bf16);
    workspace_ = Buffer(scratch * sizeof(float), device.memory);
    context_ = {.stream = stream_.handle(),
                .products = nullptr,
                .workspace = workspace_.view(scratch, Dtype::fp32)};
  }
  void run() {
    const View weight = weights_.view(kProduct.in * kProduct.out, Dtype::bf16,
                                      turn_++ % kWeights * kProduct.in * kProduct.out * 2);
    device_.nn->linear_forward(context_, kProduct,
                               x_.view(kProduct.rows * kProduct.in, Dtype::bf16), weight, {}, {},
                               y_.view(kProduct.rows * kProduct.out, Dtype::bf16));
  }
  [[nodiscard]] const Stream& stream() const { return stream_; }

 private:
  ComputeDevice device_;
  Stream stream_ = device_.make_stream("products", StreamPriority::normal);
  Buffer x_ = Buffer::zeros(kProduct.rows * kProduct.in, Dtype::bf16, device_.memory);
  Buffer weights_ =
      Buffer::zeros(kWeights * kProduct.in * kProduct.out, Dtype::bf16, device_.memory);
  Buffer y_ = Buffer::zeros(kProduct.rows * kProduct.out, Dtype::bf16, device_.memory);
  Buffer workspace_;
  nn::NnContext context_;
  std::size_t turn_ = 0;
};

/// The operation that one stream repeats.
struct Line {
  const Stream& stream;
  std::function<void()> begin;
  std::size_t times = 0;
};

/// Seconds of the slowest rank, of one run of each line.
struct Times {
  double first = 0;
  double second = 0;
};

struct Bench {
  comm::World& world;
  const Device& device;
  Products products{device};
  Stream stream = device.make_stream("gathers", StreamPriority::high);
  Stream exchanges = device.make_stream("exchanges", StreamPriority::high);
  nlohmann::json rows = nlohmann::json::array();
  nlohmann::json pairs = nlohmann::json::array();

  Times sample(const Line& first, const Line& second) {
    std::array<Mark, 4> marks;
    world.control().barrier();
    first.stream.set(marks[0]);
    second.stream.set(marks[1]);
    std::size_t begun = 0;
    for (std::size_t i = 0; i < first.times; ++i) {
      first.begin();
      for (; begun < second.times * (i + 1) / first.times; ++begun) second.begin();
    }
    for (; begun < second.times; ++begun) second.begin();
    first.stream.set(marks[2]);
    second.stream.set(marks[3]);
    first.stream.synchronize();
    second.stream.synchronize();
    std::array<double, 2> slowest{marks[2].seconds_since(marks[0]),
                                  marks[3].seconds_since(marks[1])};
    world.control().all_reduce_max(slowest);
    return {slowest[0], slowest[1]};
  }
  Times measure(const Line& first, const Line& second) {
    std::vector<double> by_first;
    std::vector<double> by_second;
    for (std::size_t i = 0; i < kSamples + 1; ++i) {
      const Times times = sample(first, second);
      if (i == 0) continue;
      by_first.push_back(times.first / static_cast<double>(std::max<std::size_t>(1, first.times)));
      by_second.push_back(times.second /
                          static_cast<double>(std::max<std::size_t>(1, second.times)));
    }
    return {median(by_first), median(by_second)};
  }
  [[nodiscard]] Line gathering(const std::function<void()>& begin, std::size_t times) const {
    return {stream, begin, times};
  }
  [[nodiscard]] Line multiplying(std::size_t times) {
    return {products.stream(), [this] { products.run(); }, times};
  }
  [[nodiscard]] comm::Groups groups_that_move_by(const std::string& way) {
    return world.make_groups({.levels = false,
                              .device = device,
                              .transport = comm::Transport::nccl,
                              .copy_engines = way == "copies"});
  }
  [[nodiscard]] static std::size_t count(double seconds, double of_one) {
    return std::max<std::size_t>(1, static_cast<std::size_t>(seconds / of_one));
  }

  void run() {
    const auto ranks = static_cast<std::size_t>(world.size());
    const double alone = measure(gathering([] {}, 0), multiplying(100)).second;
    std::vector<std::string> ways{"all-gather", "messages"};
    if (nvlink_joins_gpus()) ways.emplace_back("copies");
    for (const std::string& way : ways) {
      const comm::Groups groups = groups_that_move_by(way);
      const Buffer memory = groups.make_memory(kLargest);
      const auto registered = groups.register_memory(memory, world.control());
      for (std::size_t bytes = kLargest >> 6U; bytes <= kLargest; bytes *= 4) {
        const std::size_t part = bytes / ranks / 256 * 256;
        const View full = memory.view(ranks * part / 2, Dtype::bf16);
        const View own =
            full.part(static_cast<std::size_t>(groups.world->rank()) * part / 2, part / 2);
        const auto gather = [&] {
          comm::Bytes sent;
          const auto work = way == "all-gather"
                                ? groups.world->native_collective(
                                      {comm::NativeOp::all_gather, own, full}, stream.handle())
                                : groups.world->all_gather_in_place(memory.data(), part, part,
                                                                    stream.handle(), sent);
          work->wait(stream.handle());
        };
        const double once = measure(gathering(gather, 4), multiplying(0)).first;
        const auto gathers = static_cast<std::size_t>(kShortest / once) + 4;
        report(way, part, once, alone,
               measure(gathering(gather, gathers),
                       multiplying(count(static_cast<double>(gathers) * once, alone))));
      }
      if (way != "all-gather") run_beside_exchanges(way, groups, memory);
    }
  }

  /// In training, gathers of weights and reductions of gradients are of different communicators.
  void run_beside_exchanges(const std::string& way, const comm::Groups& groups,
                            const Buffer& memory) {
    const auto ranks = static_cast<std::size_t>(world.size());
    const comm::Groups others = groups_that_move_by(way);
    const Buffer gradients = others.make_memory(2 * kLargest);
    const auto registered = others.register_memory(gradients, world.control());
    for (std::size_t bytes = kLargest >> 4U; bytes <= kLargest; bytes *= 4) {
      const std::size_t part = bytes / ranks / 256 * 256;
      comm::Bytes sent;
      const std::function<void()> gather = [&, part] {
        groups.world->all_gather_in_place(memory.data(), part, part, stream.handle(), sent)
            ->wait(stream.handle());
      };
      const std::function<void()> exchange = [&, part] {
        others.world
            ->exchange_equal(gradients.data(), gradients.data() + kLargest, part,
                             exchanges.handle(), sent)
            ->wait(exchanges.handle());
      };
      const double gathers = measure(gathering(gather, 4), {exchanges, exchange, 0}).first;
      const double exchanged = measure(gathering(gather, 0), {exchanges, exchange, 4}).second;
      const double seconds = kShortest + 4 * (gathers + exchanged);
      const Line first = gathering(gather, count(seconds, gathers));
      const Line second{exchanges, exchange, count(seconds, exchanged)};
      report_pair(way, part, {gathers, exchanged}, measure(first, second), first.times,
                  second.times);
    }
  }

  /// The rate of both beside each other is all bytes over the time of the line that ends last:
  /// the first to end leaves the link to the other.
  void report_pair(const std::string& way, std::size_t part, const Times& alone,
                   const Times& beside, std::size_t gathers, std::size_t exchanged) {
    pairs.push_back({{"way", way},
                     {"bytes_a_peer", part},
                     {"gather_seconds", alone.first},
                     {"exchange_seconds", alone.second},
                     {"gathers", gathers},
                     {"exchanges", exchanged},
                     {"gather_beside_exchange_seconds", beside.first},
                     {"exchange_beside_gather_seconds", beside.second}});
    if (world.control().rank() != 0) return;
    const double sent = 1e-9 * static_cast<double>(part) * (world.size() - 1);
    const double last = std::max(static_cast<double>(gathers) * beside.first,
                                 static_cast<double>(exchanged) * beside.second);
    std::printf(
        "%-10s %9zu bytes a peer  gather %6.1f GB/s, exchange %6.1f; beside each other %6.1f and "
        "%6.1f, both %6.1f\n",
        way.c_str(), part, sent / alone.first, sent / alone.second, sent / beside.first,
        sent / beside.second, static_cast<double>(gathers + exchanged) * sent / last);
  }

  void report(const std::string& way, std::size_t part, double once, double alone,
              const Times& beside) {
    const double sent = static_cast<double>(part) * (world.size() - 1);
    rows.push_back({{"way", way},
                    {"bytes_a_peer", part},
                    {"gather_seconds", once},
                    {"gather_beside_seconds", beside.first},
                    {"product_seconds", alone},
                    {"product_beside_seconds", beside.second}});
    if (world.control().rank() != 0) return;
    std::printf(
        "%-10s %9zu bytes a peer  %8.3f ms %6.1f GB/s, beside products %8.3f ms %6.1f GB/s; a "
        "product %.3f ms, beside %.3f (%.2fx)\n",
        way.c_str(), part, 1e3 * once, 1e-9 * sent / once, 1e3 * beside.first,
        1e-9 * sent / beside.first, 1e3 * alone, 1e3 * beside.second, beside.second / alone);
  }
};

void run(comm::World& world, const char* file) {
  world.set_topology(0);
  const Device device = Device::cuda(test::host_rank());
  Bench beside{world, device};
  beside.run();
  bench::write(world, file, {{"rows", beside.rows}, {"pairs", beside.pairs}});
}

}  // namespace
}  // namespace zeropp

int main(int argc, char** argv) {
  zeropp::comm::World world(argc, argv);
  return zeropp::bench::guarded("bench_beside_cuda",
                                [&] { zeropp::run(world, argc > 1 ? argv[1] : nullptr); });
}
