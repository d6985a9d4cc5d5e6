#include "lib/device/compute_device.hpp"

namespace zeropp {

ComputeDevice::ComputeDevice(const Device& device) : Device(device) {
  if (runtime == nullptr) return;
  const bool host = backend == Backend::host;
  optim = host ? &optim::host_optim_ops() : optim::cuda_optim_ops();
  nn = host ? &nn::host_nn_ops() : nn::cuda_nn_ops();
}

}  // namespace zeropp
