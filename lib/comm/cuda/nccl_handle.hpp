// An owned ncclComm_t. Calls block until their work is enqueued (for a communicator that may not
// block NCCL starts a thread at every call, which costs more than small messages take); the host
// waits in them for other ranks when communicators are created and ranks connect, which the
// watchdog ends when it takes too long (lib/comm/watchdog.hpp). Errors are Error(environment), a
// stream that does not finish is Error(watchdog); both name group, operation and rank. All
// communicators of the process are aborted before they are thrown: kernels of others may wait for
// the same rank, and none may keep the device busy while the stack unwinds, since freeing device
// memory waits for it. Any other exception aborts each communicator for itself, as its owner is
// destroyed: the handler may continue with other groups.
//
// While handles live, every wait of the host for a stream of the GPU looks at all of them
// (lib/device/cuda/stream_watch.hpp).
#pragma once

#include <nccl.h>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <span>
#include <string>
#include <utility>

#include "lib/base/error.hpp"
#include "lib/base/poll.hpp"
#include "lib/comm/flight_record.hpp"
#include "lib/comm/orderly_end.hpp"

namespace zeropp::comm {

class NcclHandle {
 public:
  /// Mover of the bytes: kernels, or copy engines where they can (nccl_copies.hpp).
  enum class Kind : std::uint8_t { kernels, copies };

  /// Makes the communicator; every rank of the group calls it with the same id.
  NcclHandle(std::string group, int rank, int size, const ncclUniqueId& id,
             Kind kind = Kind::kernels);
  /// Finalises and destroys the communicator; aborts it when an exception passes.
  ~NcclHandle();
  NcclHandle(const NcclHandle&) = delete;
  NcclHandle& operator=(const NcclHandle&) = delete;

  /// Runs `call`, which returns an ncclResult_t, until its work is enqueued: events recorded from
  /// then on come after it. `operation` and `bytes` are for messages and the flight record; the
  /// name lives as long as the process.
  template <class Call>
  void run(const char* operation, std::size_t bytes, Call&& call) {
    operation_ = operation;
    require_alive();
    const Enqueueing in_call(log_, operation, bytes);
    require(call(comm_));
  }
  /// Runs `call` unless the communicator has ended: for the release of what ends with it in any
  /// case.
  template <class Call>
  void unless_ended(Call&& call) noexcept {
    if (comm_ != nullptr) call(comm_);
  }
  /// Runs several calls, as run() does one, that NCCL is to start as one operation, on every one of
  /// `handles`: `calls(i, communicator of handle i)` returns the first result that is an error, or
  /// ncclSuccess.
  template <class Calls>
  static void run_group(const char* operation, std::size_t bytes,
                        std::span<NcclHandle* const> handles, Calls&& calls) {
    for (NcclHandle* const handle : handles) {
      handle->operation_ = operation;
      handle->require_alive();
    }
    const Enqueueing in_call(handles.front()->log_, operation, bytes);
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
  static void watch(Seconds waited);

  void require_alive() const;
  /// Throws Error where `status` is an error.
  void require(ncclResult_t status) {
    if (status != ncclSuccess) fail(status);
  }
  [[nodiscard]] bool has_failed();
  /// Finalises and destroys the communicator; aborts it where that fails.
  void finish() noexcept;
  /// Aborts the communicators of `handles` together: each waits for what it has enqueued, which may
  /// be queued after the work of another. `cause` is the error that they are ended for; it is
  /// printed where they cannot be ended, since it cannot be thrown then.
  static void abort(std::span<NcclHandle* const> handles, const std::string& cause) noexcept;
  /// Takes the communicators of `handles` over, and returns the operations that end them.
  [[nodiscard]] static ForcedEnd forced_end(std::span<NcclHandle* const> handles,
                                            const std::string& cause);
  /// The error to throw, after this handle and all that live were aborted.
  [[nodiscard]] Error ended(ExitCode code, const std::string& message);
  [[nodiscard]] std::string words(const std::string& what) const;
  [[noreturn]] void fail(ncclResult_t status);

  std::string group_;
  GroupLog log_{group_};
  int rank_;
  int exceptions_ = std::uncaught_exceptions();
  ncclComm_t comm_ = nullptr;  ///< null once it was ended
  const char* operation_ = "creation";
  ncclResult_t last_ = ncclSuccess;
};

}  // namespace zeropp::comm
