// The groups of a communicator's ranks (world, node, rail), without MPI.
#pragma once

#include "lib/c/callback_control.hpp"
#include "lib/c/zeropp.h"
#include "lib/comm/groups.hpp"
#include "lib/device/device.hpp"

namespace zeropp::c {

/// ZPP_CUDA: the current GPU of this thread. Throws Error(environment).
Device device_of(zpp_device device);

/// Collective. `options` were checked, on all ranks alike; `callbacks` outlive the groups.
comm::Groups make_groups(const zpp_comm_options& options, const zpp_callbacks& callbacks,
                         CallbackControl& control, const Device& device);

}  // namespace zeropp::c
