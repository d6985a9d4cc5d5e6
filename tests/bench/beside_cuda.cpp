// What products take while weights are gathered inside a node, and what gathers take meanwhile, by
// NCCL's all-gather, by its messages and by copy engines:
//   mpirun -n N bench_beside_cuda [OUT.json]
// The product is one of a block 6144 wide on 512 tokens, in bf16, again and again; a sample lasts
// as long as some gathers of one size, with as many products beside them as take that long alone.
// Rates count the bytes that a rank sends. What a planned cluster calls node_links.copies_gb_per_s
// and copies_gpu_share (inputs/clusters/README.md).
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

/// Seconds of the slowest rank.
struct Times {
  double gathers = 0;
  double products = 0;
};

struct Bench {
  comm::World& world;
  const Device& device;
  Products products{device};
  Stream stream = device.make_stream("gathers", StreamPriority::high);
  nlohmann::json rows = nlohmann::json::array();

  Times sample(const std::function<void()>& gather, std::size_t gathers, std::size_t count) {
    std::array<Mark, 4> marks;
    world.control().barrier();
    stream.set(marks[0]);
    products.stream().set(marks[1]);
    std::size_t begun = 0;
    for (std::size_t i = 0; i < gathers; ++i) {
      gather();
      for (; begun < count * (i + 1) / gathers; ++begun) products.run();
    }
    for (; begun < count; ++begun) products.run();
    stream.set(marks[2]);
    products.stream().set(marks[3]);
    stream.synchronize();
    products.stream().synchronize();
    std::array<double, 2> slowest{marks[2].seconds_since(marks[0]),
                                  marks[3].seconds_since(marks[1])};
    world.control().all_reduce_max(slowest);
    return {slowest[0], slowest[1]};
  }
  /// Times of one gather and of one product.
  Times measure(const std::function<void()>& gather, std::size_t gathers, std::size_t count) {
    std::vector<double> by_gather;
    std::vector<double> by_product;
    for (std::size_t i = 0; i < kSamples + 1; ++i) {
      const Times times = sample(gather, gathers, count);
      if (i == 0) continue;
      by_gather.push_back(times.gathers / static_cast<double>(std::max<std::size_t>(1, gathers)));
      by_product.push_back(times.products / static_cast<double>(std::max<std::size_t>(1, count)));
    }
    return {median(by_gather), median(by_product)};
  }

  void run() {
    const auto ranks = static_cast<std::size_t>(world.size());
    const double alone = measure([] {}, 0, 100).products;
    std::vector<std::string> ways{"all-gather", "messages"};
    if (nvlink_joins_gpus()) ways.emplace_back("copies");
    for (const std::string& way : ways) {
      const comm::Groups groups = world.make_groups({.levels = false,
                                                     .device = device,
                                                     .transport = comm::Transport::nccl,
                                                     .copy_engines = way == "copies"});
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
        const double once = measure(gather, 4, 0).gathers;
        const auto gathers = static_cast<std::size_t>(kShortest / once) + 4;
        const auto count = static_cast<std::size_t>(static_cast<double>(gathers) * once / alone);
        report(way, part, once, alone, measure(gather, gathers, std::max<std::size_t>(1, count)));
      }
    }
  }

  void report(const std::string& way, std::size_t part, double once, double alone,
              const Times& beside) {
    const double sent = static_cast<double>(part) * (world.size() - 1);
    rows.push_back({{"way", way},
                    {"bytes_a_peer", part},
                    {"gather_seconds", once},
                    {"gather_beside_seconds", beside.gathers},
                    {"product_seconds", alone},
                    {"product_beside_seconds", beside.products}});
    if (world.control().rank() != 0) return;
    std::printf(
        "%-10s %9zu bytes a peer  %8.3f ms %6.1f GB/s, beside products %8.3f ms %6.1f GB/s; a "
        "product %.3f ms, beside %.3f (%.2fx)\n",
        way.c_str(), part, 1e3 * once, 1e-9 * sent / once, 1e3 * beside.gathers,
        1e-9 * sent / beside.gathers, 1e3 * alone, 1e3 * beside.products, beside.products / alone);
  }
};

void run(comm::World& world, const char* file) {
  world.set_topology(0);
  const Device device = Device::cuda(test::host_rank());
  Bench beside{world, device};
  beside.run();
  bench::write(world, file, {{"rows", beside.rows}});
}

}  // namespace
}  // namespace zeropp

int main(int argc, char** argv) {
  zeropp::comm::World world(argc, argv);
  return zeropp::bench::guarded("bench_beside_cuda",
                                [&] { zeropp::run(world, argc > 1 ? argv[1] : nullptr); });
}
