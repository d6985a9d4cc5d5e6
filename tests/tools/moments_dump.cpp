// Steps an optimizer on the host, so that a script can compare bits:
//   moments_dump TYPE MOMENTS N STEPS NUMBER KEY
// reads STEPS gradients of N fp32 values from standard input, and writes, after all steps from
// weights 0, the fp32 weights, then of each moment its values as they are kept and its scales. Step
// t draws by KEY + t; the first element has the number NUMBER. Learning rate 0.01, betas 0.9 and
// 0.95, SGD's momentum 0.9.
#include <cstdio>
#include <iostream>
#include <string>
#include <vector>

#include "kernels/core/host_runtime.hpp"
#include "kernels/optim/registry.hpp"

namespace {

using namespace zeropp;

template <class T>
void write(const std::vector<T>& values) {
  std::cout.write(reinterpret_cast<const char*>(values.data()),
                  static_cast<std::streamsize>(values.size() * sizeof(T)));
}

void run(const std::vector<std::string>& args) {
  const auto moments = parse_enum<optim::Moments>(args.at(1)).value();
  const optim::Options options{
      .type = args.at(0), .learning_rate = 0.01, .momentum = 0.9, .moments = moments};
  const std::size_t n = std::stoul(args.at(2));
  const std::uint64_t number = std::stoull(args.at(4));
  const optim::Variant variant = optim::variant_of(options);
  std::vector<float> weights(n);
  std::vector<std::vector<std::byte>> values(
      variant.states, std::vector<std::byte>(n * optim::moment_element_bytes(moments)));
  std::vector<std::vector<float>> scales(variant.states,
                                         std::vector<float>(optim::moment_scales(moments, n)));
  optim::UpdatePiece piece{.gradient = nullptr,
                           .weight = weights.data(),
                           .state = {},
                           .narrow = nullptr,
                           .count = static_cast<std::uint32_t>(n),
                           .decay = false,
                           .number = number};
  for (std::size_t i = 0; i < variant.states; ++i) {
    piece.state[i] = values[i].data();
    piece.scale[i] = scales[i].data();
  }
  std::vector<float> gradient(n);
  for (std::uint64_t t = 1; t <= std::stoull(args.at(3)); ++t) {
    std::cin.read(reinterpret_cast<char*>(gradient.data()),
                  static_cast<std::streamsize>(n * sizeof(float)));
    piece.gradient = gradient.data();
    variant.host(options, {t, {1.0F, 1.0F}, std::stoull(args.at(5)) + t}, Dtype::fp32, {&piece, 1},
                 {});
  }
  write(weights);
  for (std::size_t i = 0; i < variant.states; ++i) {
    write(values[i]);
    write(scales[i]);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const HostRuntime runtime;
  try {
    run({argv + 1, argv + argc});
  } catch (const std::exception& error) {
    std::cerr << "moments_dump: error: " << error.what() << "\n";
    return 2;
  }
}
