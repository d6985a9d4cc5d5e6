// Speed of the end of a step on the GPU beside a device-to-device copy in the same run:
//   bench_optim_cuda [OUT.json]
// The norm of the gradients, and AdamW with bf16 weights that follow, as the engine calls them, a
// launch of AdamW a unit: of one tensor of 256 Mi parameters, and of a GPT of 1.64 B parameters
// over 8 ranks and on one. Bytes are those that an operation must move: 4 a parameter for the norm,
// 30 for AdamW (gradient read; master and moments read and written; bf16 written).
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "kernels/core/memory_ops.hpp"
#include "lib/device/device.hpp"
#include "lib/model/gpt_units.hpp"
#include "lib/zero/gradient_norm.hpp"
#include "lib/zero/optimizer_shard.hpp"
#include "tests/bench/gpu_bench.cuh"

namespace zeropp {
namespace {

using bench::median_time;
using bench::stream;

constexpr std::size_t kCopied = std::size_t{1} << 28U;  // fp32

std::vector<zero::Unit> gpt() {
  model::Options options;
  options.num_layers = 48;
  options.hidden_size = 1600;
  options.num_attention_heads = 25;
  options.seq_length = 1024;
  options.tied_head = false;
  return model::gpt_units(options, 50'257);
}

void measure_copy(const Device& device, bench::Table& table) {
  const Buffer from = Buffer::zeros(kCopied, Dtype::fp32, device.memory);
  const Buffer to(from.bytes(), device.memory);
  table.copy(2 * from.bytes(), median_time([&] {
               device.memory_ops->copy(from.view(kCopied, Dtype::fp32),
                                       to.view(kCopied, Dtype::fp32), stream().handle());
             }));
}

/// Rank 0's part of `units` over `ranks` ranks.
void measure(const std::string& name, const std::vector<zero::Unit>& units, std::size_t ranks,
             const Device& device, bench::Table& table) {
  const auto partitions = zero::partition_units(units, ranks, 1, Dtype::bf16);
  std::size_t parameters = 0;
  std::vector<Buffer> memory;
  std::vector<View> gradients;
  std::vector<zero::UnitArrays> arrays;
  for (const zero::UnitPartition& unit : partitions) {
    const std::size_t n = unit.shard;
    parameters += n;
    const Buffer& gradient = memory.emplace_back(n * sizeof(float), device.memory);
    gradients.push_back(gradient.view(n, Dtype::fp32));
    device.optim->initialize(1, memory.size(), 0, n, 0.0F, 1e-3F, gradients.back().as<float>(),
                             stream().handle());
    const Buffer& follower = memory.emplace_back(n * sizeof(Bf16), device.memory);
    arrays.push_back({gradients.back(), follower.view(n, Dtype::bf16)});
  }
  const zero::GradientNorm norm(gradients, partitions, device);
  zero::OptimizerShard optimizer(units, partitions, arrays, true, 0, 1, {.weight_decay = 0.1},
                                 device, stream().handle());
  const float mean = 1.0F / static_cast<float>(ranks);
  measure_copy(device, table);
  table.add("norm", name, 4 * parameters, median_time([&] { norm.start(mean, stream()); }));
  std::uint64_t t = 0;
  table.add("AdamW", name, 30 * parameters, median_time([&] {
              ++t;
              for (std::size_t unit = 0; unit < units.size(); ++unit) {
                optimizer.update(unit, t, mean, 1.0, stream().handle());
              }
            }));
}

int run(const char* path) {
  if (visible_gpus().empty()) {
    std::fprintf(stderr, "bench_optim_cuda: %s\n", no_gpu_reason().c_str());
    return 1;
  }
  const Device device = Device::cuda(0);
  bench::Table table("parameters");
  const std::size_t flat = std::size_t{1} << 28U;
  measure("256 Mi, one tensor", {zero::layout_unit("flat", {{.name = "weight", .shape = {flat}}})},
          1, device, table);
  measure("GPT 1.64 B, 8 ranks", gpt(), 8, device, table);
  measure("GPT 1.64 B, 1 rank", gpt(), 1, device, table);
  if (path != nullptr) std::ofstream(path) << table.json().dump(1) << "\n";
  return 0;
}

}  // namespace
}  // namespace zeropp

int main(int argc, char** argv) { return zeropp::run(argc > 1 ? argv[1] : nullptr); }
