// Context that every model is built on.
#pragma once

#include <cstddef>

#include "lib/device/compute_device.hpp"
#include "lib/model/sizing.hpp"
#include "lib/trace/recorder.hpp"

namespace zeropp::model {

/// The timers outlive the model.
struct Context {
  std::size_t micro_batch = 1;  ///< most sequences of a batch
  std::size_t vocab_size = 0;   ///< tokens of a batch are in [0, vocab_size)
  ComputeDevice device;
  Dtype compute = Dtype::fp32;  ///< of the weights that forward and backward are given
  bool deterministic = false;  ///< the same bits in every run, where the back end is faster without
  bool autotune = false;       ///< time the algorithms of a product when it first occurs
  trace::Timers& timers;

  /// Sizing of the model: this context without what runs.
  [[nodiscard]] Sizing sizing() const {
    return {micro_batch, vocab_size, compute, deterministic, *device.nn};
  }
};

}  // namespace zeropp::model
