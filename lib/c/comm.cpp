#include "lib/c/comm.hpp"

#include <fmt/format.h>

#include <array>
#include <cstdint>

#include "lib/base/error.hpp"
#include "lib/base/status.hpp"
#include "lib/c/error_guard.hpp"
#include "lib/c/groups.hpp"

namespace {

using zeropp::Device;
using zeropp::Error;
using zeropp::ExitCode;

/// Checks what a rank can judge by itself, before anything is asked of others.
void check(const zpp_comm_options& options, const zpp_callbacks& callbacks) {
  const auto refuse = [](const std::string& what) {
    throw Error(ExitCode::usage, "zpp_comm_create: " + what);
  };
  if (options.size < 1 || options.rank < 0 || options.rank >= options.size) {
    refuse(fmt::format("rank {} of size {} cannot be: give a rank from 0 to size - 1", options.rank,
                       options.size));
  }
  if (options.node_size < 1 || options.size % options.node_size != 0) {
    refuse(
        fmt::format("node_size {} does not divide the size {}: give the ranks of a node, of "
                    "which all nodes have as many",
                    options.node_size, options.size));
  }
  if (options.device != ZPP_HOST && options.device != ZPP_CUDA) {
    refuse(fmt::format("unknown device {}: give ZPP_HOST or ZPP_CUDA",
                       static_cast<int>(options.device)));
  }
  if (options.transport != ZPP_CALLBACKS && options.transport != ZPP_NCCL) {
    refuse(fmt::format("unknown transport {}: give ZPP_CALLBACKS or ZPP_NCCL",
                       static_cast<int>(options.transport)));
  }
  if (options.transport == ZPP_NCCL && options.device != ZPP_CUDA) {
    refuse("ZPP_NCCL moves the memory of GPUs only: give ZPP_CUDA, or ZPP_CALLBACKS");
  }
  if (options.transport == ZPP_CALLBACKS && (options.rail_lanes > 1 || options.copy_engines > 0)) {
    refuse("rail_lanes and copy_engines serve ZPP_NCCL only: give 0 and -1");
  }
  if (options.rail_lanes < 0 || options.copy_engines < -1 || options.copy_engines > 1) {
    refuse(
        fmt::format("rail_lanes {} and copy_engines {} cannot be: give 0 or more lanes, and -1, "
                    "0 or 1",
                    options.rail_lanes, options.copy_engines));
  }
  if (callbacks.all_gather_bytes == nullptr) {
    refuse("callbacks.all_gather_bytes is NULL: give the control plane");
  }
  if (options.transport == ZPP_CALLBACKS && callbacks.exchange == nullptr) {
    refuse("callbacks.exchange is NULL: give what moves messages, or ZPP_NCCL");
  }
}

const zpp_comm_options& checked(const zpp_comm_options& options, const zpp_callbacks& callbacks) {
  check(options, callbacks);
  return options;
}

/// Every rank says what it was given: ranks that differ would wait for each other.
void agree_on_options(const zpp_comm_options& options, zeropp::c::CallbackControl& control) {
  const auto others = control.all_gather_texts(
      fmt::format("size {}, node_size {}, device {}, transport {}, rail_lanes {}, copy_engines {}",
                  options.size, options.node_size, static_cast<int>(options.device),
                  static_cast<int>(options.transport), options.rail_lanes, options.copy_engines));
  for (std::size_t r = 0; r < others.size(); ++r) {
    if (others[r] == others.front()) continue;
    throw Error(ExitCode::usage,
                fmt::format("zpp_comm_create: rank 0 has {}, rank {} has {}: give the same on all",
                            others.front(), r, others[r]));
  }
}

/// All ranks have theirs, or all throw.
Device agreed_device(zpp_device kind, zeropp::c::CallbackControl& control) {
  Device device;
  control.agree(zeropp::status_of([&] { device = zeropp::c::device_of(kind); }));
  return device;
}

}  // namespace

zpp_comm::zpp_comm(const zpp_comm_options& options, const zpp_callbacks& given)
    : callbacks(given),
      transport(checked(options, given).transport),
      control(callbacks, options.rank, options.size) {
  agree_on_options(options, control);
  device = agreed_device(options.device, control);
  groups = zeropp::c::make_groups(options, callbacks, control, device);
}
