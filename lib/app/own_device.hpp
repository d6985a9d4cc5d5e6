// The device that this rank computes on.
#pragma once

#include "lib/app/app.hpp"
#include "lib/device/device.hpp"

namespace zeropp::app {

/// Device of this rank: for the back end cuda the GPU that find_gpus() gave it, else the host.
/// Collective. Throws AgreedError.
Device own_device(const Context& context, Backend backend);

}  // namespace zeropp::app
