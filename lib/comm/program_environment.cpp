#include "lib/comm/program_environment.hpp"

#include <fmt/format.h>

#include <cstdlib>
#include <string>

#include "lib/base/host.hpp"
#include "lib/device/runtime.hpp"

namespace zeropp::comm {

namespace {

void set_unless_user_did(const char* name, const std::string& value) {
  (void)setenv(name, value.c_str(), /*overwrite=*/0);
}

}  // namespace

void set_cuda_environment() {
  if (cuda_runtime() == nullptr) return;
  // By default CUDA gives a process eight hardware queues; with more streams than queues, unrelated
  // streams would wait for each other.
  set_unless_user_did("CUDA_DEVICE_MAX_CONNECTIONS", "32");
}

void set_nccl_environment(const NcclNode& node) {
  // NVLS multicast needs a fabric manager that not every machine runs.
  set_unless_user_did("NCCL_NVLS_ENABLE", "0");
  if (!node.emulated) return;
  set_unless_user_did("NCCL_HOSTID", fmt::format("zeropp-node-{}-{}", node.node, host_name()));
  if (node.one_host) set_unless_user_did("NCCL_SOCKET_IFNAME", "lo");
}

}  // namespace zeropp::comm
