// Speed of the GPT's operations on the GPU beside a device-to-device copy in the same run:
//   bench_nn_cuda [OUT.json]
// In bf16, at the hidden sizes and rows of a step that a GPT of 1.6 B parameters and larger ones
// have: layer normalisation, column sums (gradients of biases), GELU passes, embedding,
// cross-entropy, and the products of a head with a vocabulary of 50257, which is odd. Bytes are
// those that an operation must move: each input read once, each output written once. Every call
// takes operands that the caches do not have.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <functional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "kernels/core/memory_ops.hpp"
#include "kernels/nn/cuda/column_sums.hpp"
#include "kernels/nn/cuda/pointwise.hpp"
#include "lib/device/buffer.hpp"
#include "lib/device/device.hpp"
#include "tests/bench/gpu_bench.cuh"

namespace zeropp {
namespace {

using bench::median_time;
using bench::stream;
using nn::LinearShape;
using nn::NnContext;
using nn::NnOps;

constexpr std::size_t kVocab = 50'257;
constexpr std::size_t kLength = 1024;
constexpr std::size_t kPool = std::size_t{1} << 29U;  ///< bf16 values

/// Views of bf16 memory that is larger than the caches, one after the other, around and around.
class Pool {
 public:
  /// Normal values with this deviation: a tile of them, over and over.
  Pool(float deviation, const Device& device) : memory_(kPool * sizeof(Bf16), device.memory) {
    constexpr std::size_t tile = std::size_t{1} << 22U;
    std::vector<Bf16> part(tile);
    std::mt19937 engine(1);
    std::normal_distribution<float> normal(0.0F, deviation);
    for (Bf16& value : part) value = round_to_bf16(normal(engine));
    for (std::size_t first = 0; first < kPool; first += tile) {
      device.memory_ops->copy(ConstView::of(part.data(), tile), all().part(first, tile),
                              stream().handle());
    }
    stream().synchronize();
  }
  [[nodiscard]] View all() const { return memory_.view(kPool, Dtype::bf16); }
  View next(std::size_t count) {
    if (at_ + count > kPool) at_ = 0;
    const View part = all().part(at_, count);
    at_ += (count + 127) / 128 * 128;
    return part;
  }

 private:
  Buffer memory_;
  std::size_t at_ = 0;
};

class Table {
 public:
  Table() {
    std::printf("%-24s %-14s %10s %10s %8s %8s %10s\n", "operation", "shape", "us", "MB", "TB/s",
                "of copy", "TFLOP/s");
  }
  /// A copy took so long: what the rows that follow are compared with.
  void copy(std::size_t bytes, double seconds) {
    copy_ = static_cast<double>(bytes) / seconds;
    moved("copy", "", bytes, seconds);
  }
  void moved(const char* operation, const std::string& shape, std::size_t bytes, double seconds) {
    const double rate = static_cast<double>(bytes) / seconds;
    std::printf("%-24s %-14s %10.1f %10.1f %8.3f %7.1f%%\n", operation, shape.c_str(),
                1e6 * seconds, 1e-6 * static_cast<double>(bytes), 1e-12 * rate, 100 * rate / copy_);
    rows_.push_back({{"operation", operation},
                     {"shape", shape},
                     {"seconds", seconds},
                     {"bytes", bytes},
                     {"bytes_per_second", rate},
                     {"of_copy", rate / copy_}});
  }
  void multiplied(const char* operation, const std::string& shape, double flops, double seconds) {
    std::printf("%-24s %-14s %10.1f %10s %8s %8s %10.1f\n", operation, shape.c_str(), 1e6 * seconds,
                "", "", "", 1e-12 * flops / seconds);
    rows_.push_back({{"operation", operation},
                     {"shape", shape},
                     {"seconds", seconds},
                     {"flops", flops},
                     {"flops_per_second", flops / seconds}});
  }
  [[nodiscard]] nlohmann::json json() const {
    return {{"samples", bench::kSamples},
            {"calls_per_sample", bench::kCalls},
            {"gpu", visible_gpus().front().name},
            {"versions", cuda_versions()},
            {"rows", rows_}};
  }

 private:
  double copy_ = 0;
  nlohmann::json rows_ = nlohmann::json::array();
};

/// What all shapes are measured with.
struct Bench {
  const Device& device;
  Pool& inputs;
  Pool& outputs;
  Table& table;

  [[nodiscard]] Buffer zeros(std::size_t count) const {
    return Buffer::zeros(count, Dtype::fp32, device.memory);
  }
  [[nodiscard]] const NnOps& ops() const { return *device.nn; }
};

View all(const Buffer& memory) { return memory.view(memory.bytes() / sizeof(float), Dtype::fp32); }

/// A launch takes the host longer than a small operation the GPU: several of them are one call.
double time_of(const std::function<void()>& call) {
  constexpr int kRepeats = 4;
  return median_time([&] {
           for (int i = 0; i < kRepeats; ++i) call();
         }) /
         kRepeats;
}

void measure_layernorm(const Bench& b, std::size_t rows, std::size_t hidden,
                       const std::string& shape) {
  const std::size_t n = rows * hidden;
  const Buffer workspace = b.zeros(b.ops().layernorm_workspace(rows, hidden));
  const NnContext context{.stream = stream().handle(), .workspace = all(workspace)};
  const Buffer mean = b.zeros(rows);
  const Buffer rstd = b.zeros(rows);
  const Buffer d_weight = b.zeros(hidden);
  const Buffer d_bias = b.zeros(hidden);
  const View weight = b.inputs.next(hidden);
  b.table.moved("layernorm forward", shape, 2 * n * sizeof(Bf16), time_of([&] {
                  b.ops().layernorm_forward(context, rows, hidden, b.inputs.next(n), weight, weight,
                                            b.outputs.next(n), all(mean), all(rstd));
                }));
  for (const bool accumulate : {false, true}) {
    b.table.moved(accumulate ? "layernorm backward, +=" : "layernorm backward", shape,
                  (accumulate ? 4 : 3) * n * sizeof(Bf16), time_of([&] {
                    b.ops().layernorm_backward(context, rows, hidden, b.inputs.next(n),
                                               b.inputs.next(n), weight, all(mean), all(rstd),
                                               accumulate, b.outputs.next(n), false, all(d_weight),
                                               all(d_bias));
                  }));
  }
}

void measure_column_sums(const Bench& b, std::size_t rows, std::size_t columns,
                         const std::string& shape) {
  const LinearShape linear{rows, columns, columns};
  const Buffer workspace = b.zeros(nn::cuda_ops::column_sums_workspace(linear));
  const NnContext context{.stream = stream().handle(), .workspace = all(workspace)};
  const Buffer d_bias = b.zeros(columns);
  b.table.moved("column sums", shape, rows * columns * sizeof(Bf16), time_of([&] {
                  nn::cuda_ops::column_sums(context, linear, b.inputs.next(rows * columns), false,
                                            all(d_bias));
                }));
}

void measure_gelu(const Bench& b, std::size_t rows, std::size_t columns, const std::string& shape) {
  const std::size_t n = rows * columns;
  b.table.moved("GELU forward", shape, 2 * n * sizeof(Bf16), time_of([&] {
                  nn::cuda_ops::gelu_forward(stream().handle(), {rows, columns, columns},
                                             b.inputs.next(n), b.outputs.next(n));
                }));
  b.table.moved("GELU backward", shape, 3 * n * sizeof(Bf16), time_of([&] {
                  nn::cuda_ops::gelu_backward(stream().handle(), n, b.inputs.next(n),
                                              b.outputs.next(n));
                }));
}

/// Tokens in the GPU's memory, and how many different ones.
struct Tokens {
  Tokens(std::size_t count, const Device& device)
      : memory(count * sizeof(std::int32_t), device.memory) {
    std::mt19937 engine(2);
    std::uniform_int_distribution<std::int32_t> token(0, kVocab - 1);
    std::vector<std::int32_t> tokens(count);
    for (std::int32_t& each : tokens) each = token(engine);
    different = std::set<std::int32_t>(tokens.begin(), tokens.end()).size();
    // Four bytes each, whatever they mean.
    device.memory_ops->copy({tokens.data(), count, Dtype::fp32}, memory.view(count, Dtype::fp32),
                            stream().handle());
    stream().synchronize();
  }
  [[nodiscard]] const std::int32_t* data() const {
    return reinterpret_cast<const std::int32_t*>(memory.data());
  }

  Buffer memory;
  std::size_t different = 0;
};

void measure_embedding(const Bench& b, std::size_t rows, std::size_t hidden,
                       const std::string& shape) {
  const std::size_t length = std::min(rows, kLength);
  const nn::EmbeddingShape embedding{rows / length, length, kVocab, hidden};
  const std::size_t n = rows * hidden;
  const Tokens tokens(rows, b.device);
  const Buffer workspace = b.zeros(b.ops().embedding_workspace(embedding));
  const NnContext context{.stream = stream().handle(), .workspace = all(workspace)};
  const Buffer d_tokens = b.zeros(kVocab * hidden);
  const Buffer d_positions = b.zeros(length * hidden);
  b.table.moved("embedding forward", shape,
                sizeof(Bf16) * (n + (tokens.different + length) * hidden), time_of([&] {
                  b.ops().embedding_forward(context, embedding, tokens.data(),
                                            b.inputs.next(kVocab * hidden),
                                            b.inputs.next(length * hidden), b.outputs.next(n));
                }));
  b.table.moved("embedding backward", shape,
                sizeof(Bf16) * n + 2 * sizeof(float) * (tokens.different + length) * hidden,
                time_of([&] {
                  b.ops().embedding_backward(context, embedding, tokens.data(), b.inputs.next(n),
                                             all(d_tokens), all(d_positions));
                }));
}

void measure_head(const Bench& b, std::size_t rows, std::size_t hidden, const std::string& shape) {
  const LinearShape head{rows, hidden, kVocab, b.ops().logits_stride(kVocab)};
  const Buffer workspace = b.zeros(b.ops().linear_workspace(head, Dtype::bf16));
  const NnContext context{.stream = stream().handle(), .workspace = all(workspace)};
  const std::size_t n = rows * head.stride();
  const Buffer memory(n * sizeof(Bf16), b.device.memory);
  const View logits = memory.view(n, Dtype::bf16);
  const Tokens targets(rows, b.device);
  const Buffer losses = b.zeros(rows);
  const Buffer d_weight = b.zeros(kVocab * hidden);
  const View x = b.inputs.next(rows * hidden);
  const View weight = b.inputs.next(kVocab * hidden);
  const double flops = 2.0 * static_cast<double>(rows) * static_cast<double>(hidden) * kVocab;
  b.table.multiplied("head forward", shape, flops, median_time([&] {
                       b.ops().linear_forward(context, head, x, weight, {}, {}, logits);
                     }));
  b.table.moved("cross-entropy", shape, 2 * n * sizeof(Bf16), median_time([&] {
                  b.ops().cross_entropy(context, rows, kVocab, head.stride(), targets.data(), true,
                                        logits, all(losses));
                }));
  b.table.multiplied("head dgrad and wgrad", shape, 2 * flops, median_time([&] {
                       b.ops().linear_backward(context, head, logits, x, weight, {},
                                               b.outputs.next(rows * hidden), false, all(d_weight),
                                               {});
                     }));
}

void measure(const Bench& b, std::size_t rows, std::size_t hidden) {
  b.table.copy(2 * b.inputs.all().bytes(), median_time([&] {
                 b.device.memory_ops->copy(b.inputs.all(), b.outputs.all(), stream().handle());
               }));
  const auto shape = [&](std::size_t columns) {
    return std::to_string(rows) + " x " + std::to_string(columns);
  };
  measure_layernorm(b, rows, hidden, shape(hidden));
  for (const std::size_t times : {1, 3, 4}) {
    measure_column_sums(b, rows, times * hidden, shape(times * hidden));
  }
  measure_gelu(b, rows, 4 * hidden, shape(4 * hidden));
  measure_embedding(b, rows, hidden, shape(hidden));
  measure_head(b, rows, hidden, shape(hidden));
}

int run(const char* path) {
  if (visible_gpus().empty()) {
    std::fprintf(stderr, "bench_nn_cuda: %s\n", no_gpu_reason().c_str());
    return 1;
  }
  const Device device = Device::cuda(0);
  Pool inputs(1.0F, device);
  Pool outputs(1.0F, device);
  Table table;
  const Bench bench{device, inputs, outputs, table};
  measure(bench, 8192, 1600);
  measure(bench, 8192, 4096);
  measure(bench, 512, 6144);
  if (path != nullptr) std::ofstream(path) << table.json().dump(1) << "\n";
  return 0;
}

}  // namespace
}  // namespace zeropp

int main(int argc, char** argv) { return zeropp::run(argc > 1 ? argv[1] : nullptr); }
