// A zpp_comm: the callbacks, the control plane over them, and the groups of its ranks.
#pragma once

#include "lib/c/callback_control.hpp"
#include "lib/c/zeropp.h"
#include "lib/comm/groups.hpp"
#include "lib/device/device.hpp"

struct zpp_comm {
  /// Throws Error. Collective.
  zpp_comm(const zpp_comm_options& options, const zpp_callbacks& given);
  zpp_comm(const zpp_comm&) = delete;
  zpp_comm& operator=(const zpp_comm&) = delete;

  zpp_callbacks callbacks;
  zpp_transport transport;
  zeropp::Device device;
  zeropp::c::CallbackControl control;
  zeropp::comm::Groups groups;
};
