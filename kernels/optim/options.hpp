// Options of the optimizer, as plain values. AdamW: Loshchilov and Hutter, arXiv 1711.05101.
#pragma once

namespace zeropp::optim {

struct AdamWOptions {
  double learning_rate = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double epsilon = 1e-8;
  double weight_decay = 0.0;
};

}  // namespace zeropp::optim
