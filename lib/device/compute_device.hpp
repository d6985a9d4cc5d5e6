// A device with the kernels of networks and optimizers that run on it, which models and optimizers
// take. Code that only moves data takes a Device.
#pragma once

#include "kernels/nn/nn_ops.hpp"
#include "kernels/optim/optim_ops.hpp"
#include "lib/device/device.hpp"

namespace zeropp {

/// A value; the tables live for the whole program.
struct ComputeDevice : Device {
  const optim::OptimOps* optim = nullptr;
  const nn::NnOps* nn = nullptr;

  ComputeDevice() = default;
  /// Device with the kernels of its back end; a Device that nothing runs on (the default) has none.
  ComputeDevice(const Device& device);  // implicit: a device is as good as one with its kernels
};

}  // namespace zeropp
