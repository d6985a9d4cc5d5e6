// Options of the optimizer, as plain values, and which of them an optimizer reads.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace zeropp::optim {

struct Options {
  std::string type = "AdamW";  ///< an entry of kernels/optim/rules
  double learning_rate = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double epsilon = 1e-8;
  double weight_decay = 0.0;
  double momentum = 0.0;
  bool nesterov = false;
};

/// The optimizers that there are, in alphabetical order.
std::vector<std::string> types();

/// Whether the optimizer `type` reads a parameter, by DeepSpeed's name of it ("lr", "betas", ...).
/// False for an unknown type.
bool reads(std::string_view type, std::string_view parameter);

/// "AdamW or Lion": the optimizers that read a parameter.
std::string readers(std::string_view parameter);

}  // namespace zeropp::optim
