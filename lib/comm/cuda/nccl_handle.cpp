#include "lib/comm/cuda/nccl_handle.hpp"

#include <cuda_runtime_api.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <utility>
#include <vector>

#include "lib/comm/orderly_end.hpp"
#include "lib/comm/watchdog.hpp"
#include "lib/device/cuda/stream_watch.hpp"

namespace zeropp::comm {

namespace {

constexpr Seconds kFinalizeDeadline{30};
constexpr Seconds kAbortDeadline{10};

std::vector<NcclHandle*>& live_handles() {
  static std::vector<NcclHandle*> handles;
  return handles;
}

}  // namespace

NcclHandle::NcclHandle(std::string group, int rank, int size, const ncclUniqueId& id,
                       [[maybe_unused]] Kind kind)
    : group_(std::move(group)), rank_(rank) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 1;
#ifdef NCCL_CTA_POLICY_ZERO
  if (kind == Kind::copies) config.CTAPolicy = NCCL_CTA_POLICY_ZERO;
#endif
  const Enqueueing in_call(log_, operation_, 0);
  require(ncclCommInitRankConfig(&comm_, size, id, rank, &config));
  live_handles().push_back(this);
  set_stream_watch(watch);
}

NcclHandle::~NcclHandle() {
  if (std::uncaught_exceptions() > exceptions_) {
    NcclHandle* const self = this;
    abort({&self, 1}, {});
  } else {
    finish();
  }
  std::erase(live_handles(), this);
  if (live_handles().empty()) set_stream_watch(nullptr);
}

void NcclHandle::require_alive() const {
  if (comm_ != nullptr) return;
  throw Error(ExitCode::environment, words("was ended by an earlier error"));
}

bool NcclHandle::has_failed() {
  const ncclResult_t asked = ncclCommGetAsyncError(comm_, &last_);
  if (asked != ncclSuccess) last_ = asked;
  return last_ != ncclSuccess;
}

void NcclHandle::fail(ncclResult_t status) {
  Watchdog::wait_for_verdict();
  const char* const detail = ncclGetLastError(comm_);
  throw ended(
      ExitCode::environment,
      words(fmt::format("{} ({}): look for a rank that ended early or two ranks on one GPU; "
                        "NCCL_DEBUG=INFO says more",
                        ncclGetErrorString(status), detail == nullptr ? "no detail" : detail)));
}

Error NcclHandle::ended(ExitCode code, const std::string& message) {
  std::vector<NcclHandle*> handles = live_handles();
  handles.push_back(this);  // which may not live yet; a communicator is taken once in any case
  abort(handles, message);
  return {code, message};
}

std::string NcclHandle::words(const std::string& what) const {
  std::string text =
      fmt::format("NCCL group '{}', {}, rank {}: {}", group_, operation_, rank_, what);
  std::ranges::replace(text, '\n', ' ');  // an error is one line
  return text;
}

void NcclHandle::watch(Seconds waited) {
  for (NcclHandle* const handle : live_handles()) {
    if (handle->comm_ != nullptr && handle->has_failed()) {
      handle->fail(handle->last_);
    }
  }
  const Seconds deadline = Watchdog::deadline();
  if (deadline <= Seconds{0} || waited < deadline) return;
  std::string last;
  for (NcclHandle* const handle : live_handles()) {
    last += fmt::format(" '{}' {},", handle->group_, handle->operation_);
  }
  const std::string message = fmt::format(
      "the GPU's stream did not finish within {} s (--timeout); the last operations of the "
      "NCCL groups were:{} look for a rank that ended or hangs, with the flight records of all",
      deadline.count(), last);
  abort(live_handles(), message);
  throw Error(ExitCode::watchdog, message);
}

void NcclHandle::finish() noexcept {
  const ncclComm_t comm = comm_;
  if (comm == nullptr) return;
  // The calls run on threads of their own, which begin on the first GPU.
  int device = 0;
  (void)cudaGetDevice(&device);
  const auto finish = [comm, device] {
    (void)cudaSetDevice(device);
    return ncclCommFinalize(comm) == ncclSuccess && ncclCommDestroy(comm) == ncclSuccess;
  };
  NcclHandle* const self = this;
  end_orderly(finish, kFinalizeDeadline, forced_end({&self, 1}, {}), kAbortDeadline);
}

void NcclHandle::abort(std::span<NcclHandle* const> handles, const std::string& cause) noexcept {
  const ForcedEnd forced = forced_end(handles, cause);
  if (!forced.aborts.empty()) end_by_force(forced, kAbortDeadline);
}

ForcedEnd NcclHandle::forced_end(std::span<NcclHandle* const> handles, const std::string& cause) {
  int device = 0;
  (void)cudaGetDevice(&device);
  ForcedEnd forced;
  std::string groups;
  for (NcclHandle* const handle : handles) {
    const ncclComm_t comm = std::exchange(handle->comm_, nullptr);
    if (comm == nullptr) continue;
    groups += fmt::format("{}'{}', rank {}, after '{}'", groups.empty() ? "" : "; ", handle->group_,
                          handle->rank_, handle->operation_);
    forced.aborts.emplace_back([comm, device] {
      (void)cudaSetDevice(device);
      (void)ncclCommAbort(comm);
    });
  }
  forced.give_up = [groups = std::move(groups), cause] {
    const std::string line = fmt::format(
        "zeropp: NCCL groups could not be ended, so this process ends: {}{}{}; look for a rank "
        "that hangs, with the flight records of all\n",
        groups, cause.empty() ? "" : ": ", cause);
    std::fputs(line.c_str(), stderr);
    _exit(static_cast<int>(ExitCode::watchdog));
  };
  return forced;
}

}  // namespace zeropp::comm
