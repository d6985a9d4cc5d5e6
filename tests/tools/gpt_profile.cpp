// Times forward and backward of the GPT in one process and prints tokens per second and the share
// of matrix products: gpt_profile [hidden layers seq batch vocab repeats bf16]
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "kernels/core/host_runtime.hpp"
#include "lib/model/transformer.hpp"
#include "tests/support/local_model.hpp"

int main(int argc, char** argv) {
  using namespace zeropp;
  using Category = trace::Timers::Category;
  const HostRuntime runtime;
  const auto argument = [&](int index, std::size_t otherwise) {
    return argc > index ? std::strtoull(argv[index], nullptr, 10) : otherwise;
  };
  model::Options options;
  options.hidden_size = argument(1, 256);
  options.num_layers = argument(2, 4);
  options.seq_length = argument(3, 128);
  const std::size_t batch_size = argument(4, 4);
  const std::size_t vocab = argument(5, 256);
  const std::size_t repeats = argument(6, 20);
  const Dtype compute = argument(7, 0) == 1 ? Dtype::bf16 : Dtype::fp32;

  trace::Timers timers;
  const Device device = Device::host();
  model::Transformer gpt(options, {.micro_batch = batch_size,
                                   .vocab_size = vocab,
                                   .device = device,
                                   .compute = compute,
                                   .timers = timers});
  test::LocalModel local(gpt, compute);
  local.initialise(1);
  std::vector<std::int32_t> tokens(batch_size * options.seq_length);
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    tokens[i] = static_cast<std::int32_t>(philox4x32(2, i, 0).word[0] % vocab);
  }
  const zero::Batch batch{batch_size, options.seq_length, tokens, tokens};
  local.forward(batch, true);
  local.backward();
  const double matmul = timers.seconds(Category::matmul);
  const double rest = timers.seconds(Category::nn);
  for (std::size_t i = 0; i < repeats; ++i) {
    local.forward(batch, true);
    local.backward();
  }
  const double in_products = timers.seconds(Category::matmul) - matmul;
  const double busy = in_products + timers.seconds(Category::nn) - rest;
  const double rate = static_cast<double>(repeats * tokens.size()) / busy;
  std::printf("tokens_per_second %.0f gflops %.1f matmul_share %.3f milliseconds %.2f\n", rate,
              rate * gpt.flops_per_token() * 1e-9, in_products / busy,
              1e3 * busy / static_cast<double>(repeats));
  return 0;
}
