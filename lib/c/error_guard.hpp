// Guard at which exceptions end: a function of the C interface runs its work in guarded(), which
// gives the status and keeps the line that zpp_last_error() shows.
#pragma once

#include <string>
#include <utility>

#include "lib/base/error.hpp"
#include "lib/c/zeropp.h"

namespace zeropp::c {

/// A callback of the caller's that did not return 0. No Error: it has no exit code of a program.
class CallbackFailure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Status of the exception that is being caught; keeps its line for this thread.
zpp_status status_of_exception() noexcept;
const char* last_error() noexcept;

template <class Work>
zpp_status guarded(Work&& work) noexcept {
  try {
    std::forward<Work>(work)();
    return ZPP_OK;
  } catch (...) {
    return status_of_exception();
  }
}

/// Throws Error(usage) "`function`: `what` is NULL: give its address".
void require_given(const void* pointer, const char* function, const char* what);

/// Throws Error(usage) where a caller was compiled against another structure `name`.
void require_struct_size(std::size_t given, std::size_t known, const char* function,
                         const char* name);

}  // namespace zeropp::c
