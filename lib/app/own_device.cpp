#include "lib/app/own_device.hpp"

namespace zeropp::app {

Device own_device(const Context& context, Backend backend) {
  Device device = Device::host();
  context.agree_on([&] {
    const auto rank = static_cast<std::size_t>(context.control().rank());
    if (backend == Backend::cuda) device = Device::cuda(context.gpus.index[rank]);
  });
  return device;
}

}  // namespace zeropp::app
