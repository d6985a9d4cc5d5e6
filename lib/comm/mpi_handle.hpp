// Owned MPI handles, move-only. A handle is freed when destroyed, unless MPI was finalised before
// or an exception passes: to free a communicator is collective, and the exception may be this
// rank's alone. Its message comes first, and MPI frees what is left when it ends.
#pragma once

#include <mpi.h>

#include <exception>
#include <utility>

namespace zeropp::comm {

template <class Handle, int (*release)(Handle*)>
class MpiHandle {
 public:
  MpiHandle() = default;
  explicit MpiHandle(Handle handle) : handle_(handle), owned_(true) {}
  MpiHandle(MpiHandle&& other) noexcept
      : handle_(other.handle_), owned_(std::exchange(other.owned_, false)) {}
  MpiHandle& operator=(MpiHandle&& other) noexcept {
    std::swap(handle_, other.handle_);
    std::swap(owned_, other.owned_);
    return *this;
  }
  ~MpiHandle() {
    int finalised = 0;
    if (std::uncaught_exceptions() > exceptions_) return;
    if (owned_ && MPI_Finalized(&finalised) == MPI_SUCCESS && finalised == 0) release(&handle_);
  }

  [[nodiscard]] Handle get() const { return handle_; }

 private:
  Handle handle_{};
  bool owned_ = false;
  int exceptions_ = std::uncaught_exceptions();
};

using CommHandle = MpiHandle<MPI_Comm, MPI_Comm_free>;
using OpHandle = MpiHandle<MPI_Op, MPI_Op_free>;

}  // namespace zeropp::comm
