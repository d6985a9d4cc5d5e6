// Owned MPI handles, move-only. Freed when destroyed, unless MPI was finalised before.
#pragma once

#include <mpi.h>

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
    if (owned_ && MPI_Finalized(&finalised) == MPI_SUCCESS && finalised == 0) release(&handle_);
  }

  [[nodiscard]] Handle get() const { return handle_; }

 private:
  Handle handle_{};
  bool owned_ = false;
};

using CommHandle = MpiHandle<MPI_Comm, MPI_Comm_free>;
using OpHandle = MpiHandle<MPI_Op, MPI_Op_free>;

}  // namespace zeropp::comm
