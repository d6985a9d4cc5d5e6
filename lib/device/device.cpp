#include "lib/device/device.hpp"

namespace zeropp {

Device Device::host() {
  return {Backend::host, MemoryKind::host, &host_memory_ops(), &optim::host_optim_ops(),
          &nn::host_nn_ops()};
}

}  // namespace zeropp
