// Sizing of a model: what its sizes depend on, beside its options.
#pragma once

#include <cstddef>

#include "kernels/core/dtype.hpp"
#include "kernels/nn/nn_sizes.hpp"

namespace zeropp::model {

/// A value; the tables live for the whole program.
struct Sizing {
  std::size_t micro_batch = 1;  ///< most sequences of a batch
  std::size_t vocab_size = 0;   ///< tokens of a batch are in [0, vocab_size)
  Dtype compute = Dtype::fp32;  ///< of the weights that forward and backward are given
  bool deterministic = false;   ///< the same bits in every run, also where others are faster
  const nn::NnSizes& sizes = nn::planned_sizes(Backend::host);  ///< of the back end's operations
};

}  // namespace zeropp::model
