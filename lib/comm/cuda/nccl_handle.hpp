// An owned ncclComm_t. Calls block until their work is enqueued (for a communicator that may not
// block NCCL starts a thread at every call, which costs more than small messages take); the host
// waits in them for other ranks when communicators are created and ranks connect, which
// CallWatch ends when it takes too long. Errors are Error(environment), a stream that does not
// finish is Error(watchdog); both name group, operation and rank. All communicators of the process
// are aborted before they are thrown: kernels of others may wait for the same rank, and none may
// keep the device busy while the stack unwinds, since freeing device memory waits for it.
//
// While handles live, every wait of the host for a stream of the GPU looks at all of them
// (lib/device/cuda/stream_watch.hpp).
#pragma once

#include <nccl.h>

#include <cstddef>
#include <exception>
#include <functional>
#include <span>
#include <string>

#include "lib/base/error.hpp"
#include "lib/base/poll.hpp"
#include "lib/comm/call_watch.hpp"

namespace zeropp::comm {

class NcclHandle {
 public:
  /// Every rank of the group calls it with the same id.
  NcclHandle(std::string group, int rank, int size, const ncclUniqueId& id);
  /// Finalised and destroyed; aborted when an exception passes.
  ~NcclHandle();
  NcclHandle(const NcclHandle&) = delete;
  NcclHandle& operator=(const NcclHandle&) = delete;

  /// Runs `call`, which returns an ncclResult_t, until its work is enqueued: events recorded from
  /// then on come after it. `operation` is for messages and lives as long as the handle.
  template <class Call>
  void run(const char* operation, Call&& call) {
    operation_ = operation;
    require_alive();
    const CallWatch watch(kStartDeadline, late_);
    require(call(comm_));
  }
  /// The same for several calls that NCCL is to start as one, on every one of `handles`:
  /// `calls(i, communicator of handle i)` returns the first result that is an error, or
  /// ncclSuccess.
  template <class Calls>
  static void run_group(const char* operation, std::span<NcclHandle* const> handles,
                        Calls&& calls) {
    for (NcclHandle* const handle : handles) {
      handle->operation_ = operation;
      handle->require_alive();
    }
    const CallWatch watch(kStartDeadline, handles.front()->late_);
    ncclResult_t status = ncclGroupStart();
    if (status == ncclSuccess) {
      for (std::size_t i = 0; i < handles.size() && status == ncclSuccess; ++i) {
        status = calls(i, handles[i]->comm_);
      }
      const ncclResult_t end = ncclGroupEnd();
      if (status == ncclSuccess) status = end;
    }
    handles.front()->require(status);
  }

 private:
  /// Creating a communicator, and connecting its ranks at their first messages.
  static constexpr Seconds kStartDeadline{120};

  static void watch(Seconds waited);

  void require_alive() const;
  /// Throws where it is an error.
  void require(ncclResult_t status) {
    if (status != ncclSuccess) fail(status);
  }
  [[nodiscard]] bool has_failed();
  /// `cause`: the error that it is ended for; said where it cannot be ended, and so not be thrown.
  void end(bool orderly, const std::string& cause = {}) noexcept;
  static void end_live(const std::string& cause);
  /// The error to throw, after this handle and all that live were aborted.
  [[nodiscard]] Error ended(ExitCode code, const std::string& message);
  [[nodiscard]] std::string words(const std::string& what) const;
  [[noreturn]] void fail(ncclResult_t status);

  std::string group_;
  int rank_;
  int exceptions_ = std::uncaught_exceptions();
  ncclComm_t comm_ = nullptr;  ///< null once it was ended
  const char* operation_ = "creation";
  ncclResult_t last_ = ncclSuccess;
  std::function<std::string()> late_;  ///< what is said of a call that does not return
};

}  // namespace zeropp::comm
