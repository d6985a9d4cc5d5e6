// MPI's statuses and handles. Every status goes through check(), which throws Error(environment)
// with MPI's own words and the place of the call: communicators carry MPI_ERRORS_RETURN. A handle
// is owned, move-only, and freed when destroyed, unless MPI was finalised before or an exception
// passes: to free a communicator is collective, and the exception may be this rank's alone. Its
// message comes first, and MPI frees what is left when it ends.
#pragma once

#include <mpi.h>

#include <exception>
#include <source_location>
#include <utility>

namespace zeropp::comm {

void check(int mpi_status, std::source_location where = std::source_location::current());

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
